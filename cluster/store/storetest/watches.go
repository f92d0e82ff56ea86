package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cluster/store"
)

// errEnough ends a watch that has seen what it waited for.
var errEnough = errors.New("enough")

// follow watches a prefix until enough says so of all changes, or ends the test.
func (f *fixture) follow(prefix string, after store.Revision, enough func([]store.Change) bool) []store.Change {
	f.Helper()
	var all []store.Change
	err := f.store.Watch(f.ctx, prefix, after, func(group []store.Change) error {
		all = append(all, group...)
		for _, change := range group {
			if change.Revision != group[0].Revision {
				f.Errorf("one group has the revisions %d and %d", group[0].Revision, change.Revision)
			}
		}
		if enough(all) {
			return errEnough
		}
		return nil
	})
	if err != errEnough { //nolint:errorlint // Watch returns the error of deliver itself
		f.Fatalf("the watch ended with %v after %v", err, all)
	}
	return all
}

// text is a change in short form.
func text(change store.Change) string {
	if change.Deleted {
		return fmt.Sprintf("%d -%s%s", change.Revision, change.Key, change.Value)
	}
	return fmt.Sprintf("%d %s=%s", change.Revision, change.Key, change.Value)
}

// expect compares changes with their short forms.
func (f *fixture) expect(got []store.Change, want ...string) {
	f.Helper()
	var texts []string
	for _, change := range got {
		texts = append(texts, text(change))
	}
	if !slices.Equal(texts, want) {
		f.Errorf("changes are %q, want %q", texts, want)
	}
}

// count returns a function that is true of that many changes.
func count(n int) func([]store.Change) bool {
	return func(all []store.Change) bool { return len(all) >= n }
}

// watchSendsEach: changes of the past and of the future come in order, and those of a prefix alone.
func watchSendsEach(f *fixture) {
	_, start := f.list("")
	var want []string
	step := func(change string, revision store.Revision) {
		want = append(want, fmt.Sprintf("%d %s", revision, change))
	}
	a := f.put("n/a", "1", store.New)
	step("n/a=1", a)
	f.put("other", "", store.New)
	step("n/b=", f.put("n/b", "", store.New))
	again := f.put("n/a", "1", a) // a write of the same value is a change
	step("n/a=1", again)
	f.remove("n/a", again)
	_, removed := f.list("")
	step("-n/a", removed)
	step("n/a=2", f.put("n/a", "2", store.New))
	f.expect(f.follow("n/", start, count(5)), want...)

	ended := make(chan []store.Change, 1) // changes of the future
	go func() { ended <- f.follow("n/", removed, count(2)) }()
	step("n/c=3", f.put("n/c", "3", store.New))
	f.expect(<-ended, want[4:]...)
}

// watchBegins: the revision that is named is not sent again.
func watchBegins(f *fixture) {
	_, start := f.list("")
	first := f.put("a", "1", store.New)
	second := f.put("a", "2", first)
	f.expect(f.follow("", start, count(2)), fmt.Sprintf("%d a=1", first), fmt.Sprintf("%d a=2", second))
	f.expect(f.follow("", first, count(1)), fmt.Sprintf("%d a=2", second))
	ended := make(chan []store.Change, 1)
	go func() { ended <- f.follow("", second, count(1)) }()
	third := f.put("a", "3", second)
	f.expect(<-ended, fmt.Sprintf("%d a=3", third))
}

// watchEnds: a watch ends with its context, and with any error of deliver, which is not mistaken
// for one of the store.
func watchEnds(f *fixture) {
	_, start := f.list("")
	f.put("a", "1", store.New)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	err := f.store.Watch(ctx, "", start, func([]store.Change) error {
		cancel()
		return nil
	})
	f.refused("a context that has ended", err, context.Canceled)
	for _, want := range []error{store.ErrUnavailable, store.ErrCompacted, errEnough} {
		err := f.store.Watch(f.ctx, "", start, func([]store.Change) error { return want })
		f.refused("an error of deliver", err, want)
	}
}

// watchResumes cuts connections again and again while an object changes.
func watchResumes(f *fixture) {
	if f.Cut == nil {
		f.Skip("the connections of this store cannot be cut")
	}
	changes, cuts := f.many(200, 2000), f.many(5, 20)
	_, start := f.list("")
	var seen []store.Change
	var watching sync.WaitGroup
	delivered := make(chan struct{}, changes)
	watching.Go(func() {
		seen = f.follow("a", start, func(all []store.Change) bool {
			delivered <- struct{}{}
			return len(all) >= changes
		})
	})
	revision, writer := store.New, f.another()
	var want []string
	for i := range changes {
		if i%(changes/cuts) == 0 {
			f.Cut(f.T)
		}
		revision = f.force(writer, fmt.Sprint(i), revision)
		want = append(want, fmt.Sprintf("%d a=%d", revision, i))
		if i%10 == 0 {
			<-delivered // so that cuts hit a watch that has just delivered, and one that is behind
		}
	}
	watching.Wait()
	f.expect(seen, want...)
}

// force writes the object a, also if the connection breaks before the answer.
func (f *fixture) force(s store.Store, value string, replaces store.Revision) store.Revision {
	for {
		revision, err := s.Put(f.ctx, store.Write{Key: "a", Value: []byte(value), Replaces: replaces})
		if err == nil {
			return revision
		}
		if object, err := s.Get(f.ctx, "a"); err == nil && string(object.Value) == value {
			return object.Revision
		}
		if !errors.Is(err, store.ErrUnavailable) {
			f.Fatal(err)
		}
	}
}

// watchOfCompacted: a watch does not pass over changes that are no longer kept.
func watchOfCompacted(f *fixture) {
	if f.Compact == nil {
		f.Skip("the history of this store cannot be compacted")
	}
	first := f.put("a", "1", store.New)
	second := f.put("a", "2", first)
	third := f.put("a", "3", second)
	f.Compact(f.T, f.store, third)
	never := func(group []store.Change) error {
		f.Errorf("delivered %v", group)
		return errEnough
	}
	f.refused("a compacted revision", f.store.Watch(f.ctx, "a", first, never), store.ErrCompacted)
	f.refused("all", f.store.Watch(f.ctx, "", 0, never), store.ErrCompacted)
	f.expect(f.follow("a", second, count(1)), fmt.Sprintf("%d a=3", third))
	f.holds("a", "3", third)
	if objects, _ := f.list(""); len(objects) != 1 {
		f.Errorf("after a compaction there are %v", objects)
	}
}

// deletionAtCompacted compacts the revision of a deletion. A watch from before must not pass over
// it.
func deletionAtCompacted(f *fixture) {
	if f.Compact == nil {
		f.Skip("the history of this store cannot be compacted")
	}
	first := f.put("a", "1", store.New)
	f.remove("a", first)
	_, deletion := f.list("")
	f.Compact(f.T, f.store, deletion)
	after := f.put("b", "2", store.New)
	var got []store.Change
	err := f.store.Watch(f.ctx, "", deletion-1, func(group []store.Change) error {
		if got = append(got, group...); len(got) > 1 || !got[0].Deleted {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, store.ErrCompacted) {
		f.expect(got, fmt.Sprintf("%d -a", deletion), fmt.Sprintf("%d b=2", after))
	}
}
