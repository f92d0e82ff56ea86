package control

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// Errors of requests.
var (
	// ErrNoLaunch means that there is no such launch, or that it is another user's.
	ErrNoLaunch = errors.New("no such launch")
	// ErrNeverFits means that the cluster could not run a launch even if it were empty.
	ErrNeverFits = errors.New("the cluster cannot run this launch")
	// ErrTooLarge means that a launch does not fit into one object of the store.
	ErrTooLarge = errors.New("the launch is too large")
)

// Submission is a launch that a user wants to have.
type Submission struct {
	Spec    launch.Spec // checked
	Owner   string
	By      string
	Code    record.Code
	Script  []byte
	Request string
}

// create queues a launch, or one for each combination of an array's parameters.
func (l *Leader) create(s Submission) (created []*entry, err error) {
	if before := l.byRequest(s.By, s.Request); len(before) > 0 {
		return before, nil
	}
	if err := l.resolveAfter(&s); err != nil {
		return nil, err
	}
	specs, err := l.admissible(s)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		e := l.newEntry(s, spec)
		if size := len(e.Encode()); size > store.MaxValue/2 {
			return nil, fmt.Errorf("%w: its description takes %d bytes of at most %d", ErrTooLarge, size, store.MaxValue/2)
		}
		created = append(created, e)
	}
	if err := giveNetworks(l, created); err != nil {
		return nil, err
	}
	for _, e := range created {
		l.latest++
		e.Number = l.latest
		l.keep(e)
		l.quotas.launched(e.Owner, e.Code) // it counts by the launch
		l.event(e, string(e.State.Phase), "submitted by "+e.By)
		l.lookAtDependencies(e)
		l.syncParts(e)
	}
	return created, nil
}

// giveNetworks gives new launches networks of their own, if they want that. No launch that has not
// ended has the same, and one that has just ended is not followed at once: a node that is cut off
// may still have its devices.
func giveNetworks(l *Leader, created []*entry) error {
	taken := map[int]bool{}
	for _, e := range l.launches {
		if e.State.Phase != launch.Ended {
			taken[e.Network] = true
		}
	}
	most := order.CountOf(l.settings.Networks)
	next := l.latest % most
	for _, e := range created {
		if e.State.Spec.Network != launch.OwnNetwork {
			continue
		}
		tried := 0
		for next = next%most + 1; taken[next] && tried < most; tried++ {
			next = next%most + 1
		}
		if tried == most {
			return fmt.Errorf("%w: launches use all %d networks of %s; have the controllers use a larger range ([network] addresses)",
				launch.ErrRefused, most, l.settings.Networks)
		}
		taken[next], e.Network = true, next
		e.Prefix = order.PrefixOf(l.settings.Networks, next).String()
	}
	return nil
}

// admissible returns the launches that a submission means. The error says why they cannot be.
func (l *Leader) admissible(s Submission) ([]launch.Spec, error) {
	specs := s.Spec.Expand()
	for _, spec := range specs {
		if err := l.feasible(spec); err != nil {
			return nil, err
		}
	}
	return specs, l.checkQuota(s, specs)
}

// newEntry returns a launch that is not numbered yet.
func (l *Leader) newEntry(s Submission, spec launch.Spec) *entry {
	now := l.clock.Wall()
	return &entry{Launch: record.Launch{
		ID: newID(), Owner: s.Owner, By: s.By, Request: s.Request, Submitted: now, Queued: now,
		Code: s.Code, Script: s.Script, State: launch.New(spec),
	}}
}

// newID returns an id that no other launch has: 50 random bits in small letters and digits.
func newID() string {
	var random [7]byte
	_, _ = rand.Read(random[:]) // it never fails
	return "l-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])[:10])
}

// byRequest returns the launches that an earlier request with the same number has created.
func (l *Leader) byRequest(by, number string) []*entry {
	created := slices.Values(l.requests[requestKey{by, number}])
	return slices.SortedFunc(created, func(a, b *entry) int { return a.Number - b.Number })
}

// requestKey names a request: numbers are those of a caller.
type requestKey struct{ by, number string }

// request returns the key of the request that has created a launch.
func (e *entry) request() requestKey { return requestKey{e.By, e.Request} }

// find returns a launch by its id, its number, or the name of the newest one that is called so.
func (l *Leader) find(text string) *entry {
	if e := l.launches[text]; e != nil {
		return e
	}
	if number, err := strconv.Atoi(text); err == nil {
		return l.numbers[number]
	}
	var newest *entry
	for _, e := range l.launches {
		if e.State.Spec.Name == text && (newest == nil || e.Number > newest.Number) {
			newest = e
		}
	}
	return newest
}

// resolveAfter replaces what a launch comes after by ids.
func (l *Leader) resolveAfter(s *Submission) error {
	after := slices.Clone(s.Spec.After)
	for i, text := range after {
		e := l.find(text)
		if e == nil {
			return launch.Errors{{Field: fmt.Sprintf("after[%d]", i), Value: fmt.Sprintf("%q", text), Problem: "there is no such launch"}}
		}
		after[i] = e.ID
	}
	s.Spec.After = after
	return nil
}

// lookAtDependencies queues or ends a launch that waits for others, if they have ended.
func (l *Leader) lookAtDependencies(e *entry) {
	if e.State.Phase != launch.Waiting {
		return
	}
	for _, id := range e.State.Spec.After {
		other := l.launches[id]
		switch {
		case other == nil || other.State.Phase == launch.Ended && other.State.Result != launch.Completed:
			l.mustApply(e, launch.DependencyFailed{ID: id})
			return
		case other.State.Phase != launch.Ended:
			return
		}
	}
	l.mustApply(e, launch.DependenciesCompleted{})
}

// dependents looks at the launches that wait for one that has ended.
func (l *Leader) dependents(ended *entry) {
	for e := range l.waiting {
		switch {
		case e.State.Phase != launch.Waiting:
			delete(l.waiting, e)
		case slices.Contains(e.State.Spec.After, ended.ID):
			l.lookAtDependencies(e)
		}
	}
}

// feasible returns an error if the cluster could not run a launch even if it were empty. Nodes
// count that do not answer now. A cluster without nodes runs everything later.
func (l *Leader) feasible(spec launch.Spec) error {
	if len(l.nodes) == 0 {
		return nil
	}
	state := launch.New(spec)
	state.Phase = launch.Queued
	need := fit.NeedOf("", &state, state.Pending().Together)
	if lacking := fit.Lacking(l.emptyTable(), &need); lacking != "" {
		return fmt.Errorf("%w: %s; the cluster has %s", ErrNeverFits, lacking, l.has())
	}
	return nil
}

// has says what the cluster has, in one line.
func (l *Leader) has() string {
	kinds := map[string]int{}
	for _, n := range l.nodes {
		gpus := "no GPU"
		if count := len(n.Inventory.GPUs); count > 0 {
			gpus = fmt.Sprintf("%d GPUs (%s)", count, n.Inventory.GPUs[0].Name)
		}
		kinds[fmt.Sprintf("%s, %d CPUs, %d MiB", gpus, n.Inventory.CPUs, n.Inventory.MemoryBytes>>20)]++
	}
	var texts []string
	for kind, count := range kinds {
		texts = append(texts, fmt.Sprintf("%d × %s", count, kind))
	}
	slices.Sort(texts)
	if len(texts) > 8 {
		texts = append(texts[:8], "and others")
	}
	return strings.Join(texts, "; ")
}

// forget drops a launch that ended long ago.
func (l *Leader) forget(e *entry) {
	delete(l.launches, e.ID)
	delete(l.numbers, e.Number)
	l.forgetRequest(e)
	delete(l.waiting, e)
	delete(l.imaged, e)
	delete(l.changedLaunches, e)
	for _, q := range l.queues {
		delete(q.next, e)
	}
	l.forgotten = append(l.forgotten, e)
}

// oldestEnded returns the launches that ended first, of those above a number to keep. The one with
// the latest number is not among them: the next number follows it.
func oldestEnded(all map[string]*entry, latest, keep int) []*entry {
	var ended []*entry
	for _, e := range all {
		if e.State.Phase == launch.Ended && e.Number < latest {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b *entry) int { return cmp.Or(a.Ended.Compare(b.Ended), a.Number-b.Number) })
	return ended[:max(0, len(ended)-keep)]
}

// forgetRequest drops a launch from those that its request has created.
func (l *Leader) forgetRequest(e *entry) {
	left := slices.DeleteFunc(l.requests[e.request()], func(other *entry) bool { return other == e })
	l.requests[e.request()] = left
	if len(left) == 0 {
		delete(l.requests, e.request())
	}
}
