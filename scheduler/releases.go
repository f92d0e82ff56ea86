package scheduler

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// agenda knows when GPUs that are in use are expected to become free. The engine keeps it where a
// Backfiller wants to know. A GPU that several jobs share becomes free with the last of them.
type agenda struct {
	runs      map[cluster.JobID]booked
	sharers   map[cluster.GPU][]booked
	lists     []*releases // one for each set of GPUs that somebody has asked about
	surprises int
}

// booked is a run as the agenda knows it.
type booked struct {
	job        cluster.JobID
	since, due time.Duration
	on         cluster.Placement
	share      int
}

// expect enters a job that has started, or of which it has become known that it ends at another
// time.
func (f *Free) expect(j *Job) {
	a := &f.agenda
	if a.runs == nil {
		a.runs, a.sharers = map[cluster.JobID]booked{}, map[cluster.GPU][]booked{}
	}
	if b, known := a.runs[j.facts.ID]; known {
		a.surprises++
		f.book(b, false)
	}
	b := booked{j.facts.ID, j.since, j.Due(), j.placement, j.facts.Share}
	a.runs[b.job] = b
	f.book(b, true)
}

// forget takes a job out that does not run any more.
func (f *Free) forget(j *Job, now time.Duration) {
	b, known := f.agenda.runs[j.facts.ID]
	if !known {
		return
	}
	if b.due != now {
		f.agenda.surprises++
	}
	delete(f.agenda.runs, b.job)
	f.book(b, false)
}

// postpone expects those runs that should have ended by now to go on for as long again as they have
// gone on yet: to expect them to end at any moment would promise their GPUs again and again, and
// let everybody overtake whoever waits for them.
func (f *Free) postpone(now time.Duration) {
	all := f.list(gpuWant{})
	for len(all.blocks) > 0 && all.blocks[0].all[0].at <= now {
		r := all.blocks[0].all[0]
		if r.from >= 0 {
			f.prolong(f.agenda.runs[cluster.JobID(r.from)], now)
			continue
		}
		number := -1 - r.from
		for _, b := range f.agenda.sharers[cluster.GPU{Node: cluster.NodeID(number / MaxGPUsPerNode), Index: int32(number % MaxGPUsPerNode)}] {
			if b.due <= now {
				f.prolong(b, now)
			}
		}
	}
}

func (f *Free) prolong(b booked, now time.Duration) {
	f.agenda.surprises++
	f.book(b, false)
	b.due = now + max(1, now-b.since)
	f.agenda.runs[b.job] = b
	f.book(b, true)
}

// Surprises changes whenever a run ends otherwise than expected, or a node is closed or opened: as
// long as it does not, what was promised on the grounds of the agenda can be kept.
func (f *Free) Surprises() int { return f.agenda.surprises }

// disturb throws away what depends on which nodes are open.
func (a *agenda) disturb() {
	a.surprises++
	a.lists = nil
}

// Changes counts whatever happens to what is free, now or later: answers hold as long as it stays
// the same.
func (f *Free) Changes() uint64 { return f.changes }

// book enters a run everywhere, or takes it out.
func (f *Free) book(b booked, in bool) {
	f.changes++
	if b.share == cluster.WholeGPU {
		for _, l := range f.agenda.lists {
			l.set(release{b.due, int64(b.job), f.of(l, b.on)}, in)
		}
		return
	}
	gpu := b.on[0]
	before := f.agenda.sharers[gpu]
	f.bookShared(gpu, before, false)
	after := slices.DeleteFunc(slices.Clone(before), func(s booked) bool { return s.job == b.job })
	if in {
		after = append(after, b)
	}
	f.agenda.sharers[gpu] = after
	f.bookShared(gpu, after, true)
}

// bookShared enters a shared GPU, which is free when the last of those on it has ended.
func (f *Free) bookShared(gpu cluster.GPU, sharers []booked, in bool) {
	if len(sharers) == 0 {
		return
	}
	last := slices.MaxFunc(sharers, func(a, b booked) int { return cmp.Compare(a.due, b.due) })
	number := -1 - int64(gpu.Node)*MaxGPUsPerNode - int64(gpu.Index)
	for _, l := range f.agenda.lists {
		l.set(release{last.due, number, f.of(l, last.on)}, in)
	}
}

// of counts the GPUs of a placement that are in a list and not closed.
func (f *Free) of(l *releases, on cluster.Placement) int {
	n := 0
	for _, gpu := range on {
		if !f.closed[gpu.Node] && l.want.takes(f.kindOf[gpu.Node]) {
			n++
		}
	}
	return n
}

// list finds what is known of the GPUs that somebody wants.
func (f *Free) list(w gpuWant) *releases {
	for _, l := range f.agenda.lists {
		if l.want == w {
			return l
		}
	}
	l := &releases{want: w}
	for _, b := range f.agenda.runs {
		if b.share == cluster.WholeGPU {
			l.set(release{b.due, int64(b.job), f.of(l, b.on)}, true)
		}
	}
	f.agenda.lists = append(f.agenda.lists, l)
	for gpu, sharers := range f.agenda.sharers {
		if len(sharers) > 0 {
			last := slices.MaxFunc(sharers, func(a, b booked) int { return cmp.Compare(a.due, b.due) })
			l.set(release{last.due, -1 - int64(gpu.Node)*MaxGPUsPerNode - int64(gpu.Index), f.of(l, last.on)}, true)
		}
	}
	return l
}

// When is from when on n GPUs that a job can run on are expected to be free: not after now where
// they are. ok is false where the open nodes have not so many.
func (f *Free) When(j *Job, n int) (at time.Duration, ok bool) {
	n -= f.WholeFor(j)
	if n <= 0 {
		return 0, true
	}
	return f.list(j.want()).when(n)
}

// Expected is how many GPUs that a job can run on are expected to be free at a time.
func (f *Free) Expected(j *Job, at time.Duration) int {
	return f.WholeFor(j) + f.list(j.want()).until(at)
}

// Overlap reports whether there are GPUs that two jobs can both run on.
func (f *Free) Overlap(a, b *Job) bool {
	return slices.ContainsFunc(f.kinds, func(k *kind) bool { return k.open > 0 && k.suits(a) && k.suits(b) })
}

// releases are GPUs that become free, sorted by when, in blocks with their sums: with some ten
// thousand runs, a block's length and the number of blocks are both so small that walking them is
// faster than a tree.
type releases struct {
	want   gpuWant
	blocks []block
}

type block struct {
	gpus int
	all  []release
}

type release struct {
	at   time.Duration
	from int64 // the job, or below zero for a shared GPU
	gpus int
}

const blockLength = 64

func (r *release) compare(other *release) int {
	return cmp.Or(cmp.Compare(r.at, other.at), cmp.Compare(r.from, other.from))
}

// set puts a release in or takes it out.
func (l *releases) set(r release, in bool) {
	if r.gpus == 0 {
		return
	}
	b := sort.Search(len(l.blocks), func(i int) bool {
		all := l.blocks[i].all
		return all[len(all)-1].compare(&r) >= 0
	})
	if b == len(l.blocks) {
		if b == 0 {
			l.blocks = append(l.blocks, block{})
		} else {
			b--
		}
	}
	at := &l.blocks[b]
	i := sort.Search(len(at.all), func(i int) bool { return at.all[i].compare(&r) >= 0 })
	if !in {
		at.gpus -= r.gpus
		at.all = slices.Delete(at.all, i, i+1)
		if len(at.all) == 0 {
			l.blocks = slices.Delete(l.blocks, b, b+1)
		}
		return
	}
	at.gpus += r.gpus
	at.all = slices.Insert(at.all, i, r)
	if len(at.all) > blockLength {
		l.halve(b)
	}
}

func (l *releases) halve(b int) {
	old := l.blocks[b]
	half := len(old.all) / 2
	behind := block{all: slices.Clone(old.all[half:])}
	for i := range behind.all {
		behind.gpus += behind.all[i].gpus
	}
	l.blocks[b] = block{old.gpus - behind.gpus, old.all[:half:half]}
	l.blocks = slices.Insert(l.blocks, b+1, behind)
}

// when is the earliest time by which n GPUs have become free.
func (l *releases) when(n int) (time.Duration, bool) {
	for i := range l.blocks {
		b := &l.blocks[i]
		if n > b.gpus {
			n -= b.gpus
			continue
		}
		for k := range b.all {
			if n -= b.all[k].gpus; n <= 0 {
				return b.all[k].at, true
			}
		}
	}
	return 0, false
}

// until is how many become free by a time.
func (l *releases) until(at time.Duration) int {
	n := 0
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.all[len(b.all)-1].at <= at {
			n += b.gpus
			continue
		}
		for k := range b.all {
			if b.all[k].at > at {
				return n
			}
			n += b.all[k].gpus
		}
	}
	return n
}
