package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/phos-gpu/phos/cluster/store"
)

// list lists objects, or ends the test.
func (f *fixture) list(prefix string) ([]store.Object, store.Revision) {
	f.Helper()
	objects, revision, err := f.store.List(f.ctx, prefix)
	if err != nil {
		f.Fatal(err)
	}
	return objects, revision
}

// listHasPrefix: a prefix is one of bytes, and the leader is no object.
func listHasPrefix(f *fixture) {
	if objects, _ := f.list(""); len(objects) != 0 {
		f.Errorf("an empty store has %v", objects)
	}
	all := []string{"launch", "launches", "launches-2", "launches.d/x", "launches/a", "launches/a/b", "launches/b", "m"}
	last := store.New
	for _, i := range []int{3, 0, 7, 2, 5, 1, 6, 4} {
		last = f.put(all[i], all[i]+" value", store.New)
	}
	if _, err := f.store.Campaign(f.ctx, "leader"); err != nil { // which is no object
		f.Fatal(err)
	}
	for _, prefix := range []string{"", "l", "launches", "launches/", "launches/a", "launches/a/", "m", "n", "launches/a/b"} {
		var want, got []string
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		objects, revision := f.list(prefix)
		for _, object := range objects {
			got = append(got, object.Key)
			if string(object.Value) != object.Key+" value" || object.Revision <= 0 || object.Revision > last {
				f.Errorf("prefix %q: %+v", prefix, object)
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) || revision < last {
			f.Errorf("prefix %q at %d: %q, want %q", prefix, revision, got, want)
		}
	}
}

// listOfMany is a cluster of 10,000 launches of 10 KB, or a sample of it.
func listOfMany(f *fixture) {
	count := f.many(2000, 10_000)
	filler := bytes.Repeat([]byte("launch "), 10_000/7)
	var all sync.WaitGroup
	const writers = 32
	for first := range writers {
		all.Go(func() {
			for i := first; i < count; i += writers {
				write := store.Write{Key: fmt.Sprintf("launches/%05d", i), Value: fmt.Appendf(filler[:len(filler):len(filler)], "%d", i)}
				if _, err := f.store.Put(f.ctx, write); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	objects, _ := f.list("launches/")
	if len(objects) != count {
		f.Fatalf("%d of %d objects", len(objects), count)
	}
	for i, object := range objects {
		if object.Key != fmt.Sprintf("launches/%05d", i) || !bytes.HasSuffix(object.Value, fmt.Appendf(nil, " %d", i)) {
			f.Fatalf("object %d is %s, which ends with %q", i, object.Key, object.Value[len(object.Value)-10:])
		}
	}
}

// listIsOfOneRevision lists objects while one client counts all of them up, from the first to the
// last, again and again. At any revision no object is ahead of the one before it.
func listIsOfOneRevision(f *fixture) {
	places := f.many(150, 1500)
	revisions := make([]store.Revision, places)
	for i := range revisions {
		revisions[i] = f.put(place(i), "0", store.New)
	}
	ended := make(chan error, 1)
	go func() {
		s, err := f.another(), error(nil)
		for i := 0; i < 3*places && err == nil; i++ {
			at := i % places
			write := store.Write{Key: place(at), Value: fmt.Append(nil, 1+i/places), Replaces: revisions[at]}
			revisions[at], err = s.Put(f.ctx, write)
		}
		ended <- err
	}()
	for lists := 0; ; lists++ {
		objects, revision := f.list("p/")
		for i := range objects[1:] {
			if string(objects[i].Value) < string(objects[i+1].Value) || objects[i+1].Revision > revision {
				f.Fatalf("at revision %d: %+v before %+v", revision, objects[i], objects[i+1])
			}
		}
		select {
		case err := <-ended:
			if err != nil {
				f.Error(err)
			}
			f.Logf("%d lists of %d objects", lists, len(objects))
			return
		default:
		}
	}
}

func place(i int) string { return fmt.Sprintf("p/%05d", i) }
