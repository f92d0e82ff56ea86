package scheduler

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// expectedReleases knows when GPUs that are in use are expected to become free. The engine keeps it where a
// Backfiller wants to know. A GPU that several jobs share becomes free with the last of them.
type expectedReleases struct {
	runs       map[cluster.JobID]expectedRun
	sharers    map[cluster.GPU][]expectedRun
	lists      []*releaseList // one for each set of GPUs that somebody has asked about
	deviations int
}

// expectedRun is a run as the agenda knows it.
type expectedRun struct {
	job        cluster.JobID
	since, due time.Duration
	on         cluster.Placement
	share      int
}

// expect enters a job that has started, or of which it has become known that it ends at another
// time.
func (f *Free) expect(j *Job) {
	a := &f.expected
	if a.runs == nil {
		a.runs, a.sharers = map[cluster.JobID]expectedRun{}, map[cluster.GPU][]expectedRun{}
	}
	if b, known := a.runs[j.facts.ID]; known {
		a.deviations++
		f.record(b, false)
	}
	b := expectedRun{j.facts.ID, j.since, j.Due(), j.placement, j.facts.Share}
	a.runs[b.job] = b
	f.record(b, true)
}

// forget takes a job out that does not run any more.
func (f *Free) forget(j *Job, now time.Duration) {
	b, known := f.expected.runs[j.facts.ID]
	if !known {
		return
	}
	if b.due != now {
		f.expected.deviations++
	}
	delete(f.expected.runs, b.job)
	f.record(b, false)
}

// extendOverdue expects those runs that should have ended by now to go on for as long again as they have
// gone on yet: to expect them to end at any moment would promise their GPUs again and again, and
// let everybody overtake whoever waits for them.
func (f *Free) extendOverdue(now time.Duration) {
	all := f.releasesFor(gpuRequest{})
	for len(all.blocks) > 0 && all.blocks[0].all[0].at <= now {
		r := all.blocks[0].all[0]
		if r.from >= 0 {
			f.extend(f.expected.runs[cluster.JobID(r.from)], now)
			continue
		}
		number := -1 - r.from
		for _, b := range f.expected.sharers[cluster.GPU{Node: cluster.NodeID(number / MaxGPUsPerNode), Index: int32(number % MaxGPUsPerNode)}] {
			if b.due <= now {
				f.extend(b, now)
			}
		}
	}
}

func (f *Free) extend(b expectedRun, now time.Duration) {
	f.expected.deviations++
	f.record(b, false)
	b.due = now + max(1, now-b.since)
	f.expected.runs[b.job] = b
	f.record(b, true)
}

// Deviations changes whenever a run ends otherwise than expected, or a node is closed or opened: as
// long as it does not, what was promised on the grounds of the agenda can be kept.
func (f *Free) Deviations() int { return f.expected.deviations }

// invalidate throws away what depends on which nodes are open.
func (a *expectedReleases) invalidate() {
	a.deviations++
	a.lists = nil
}

// Changes counts whatever happens to what is free, now or later: answers hold as long as it stays
// the same.
func (f *Free) Changes() uint64 { return f.changes }

// record enters a run everywhere, or takes it out.
func (f *Free) record(b expectedRun, in bool) {
	f.changes++
	if b.share == cluster.WholeGPU {
		for _, l := range f.expected.lists {
			l.update(release{b.due, int64(b.job), f.countOpen(l, b.on)}, in)
		}
		return
	}
	gpu := b.on[0]
	before := f.expected.sharers[gpu]
	f.recordShared(gpu, before, false)
	after := slices.DeleteFunc(slices.Clone(before), func(s expectedRun) bool { return s.job == b.job })
	if in {
		after = append(after, b)
	}
	f.expected.sharers[gpu] = after
	f.recordShared(gpu, after, true)
}

// recordShared enters a shared GPU, which is free when the last of those on it has ended.
func (f *Free) recordShared(gpu cluster.GPU, sharers []expectedRun, in bool) {
	if len(sharers) == 0 {
		return
	}
	last := slices.MaxFunc(sharers, func(a, b expectedRun) int { return cmp.Compare(a.due, b.due) })
	number := -1 - int64(gpu.Node)*MaxGPUsPerNode - int64(gpu.Index)
	for _, l := range f.expected.lists {
		l.update(release{last.due, number, f.countOpen(l, last.on)}, in)
	}
}

// countOpen counts the GPUs of a placement that are in a list and not closed.
func (f *Free) countOpen(l *releaseList, on cluster.Placement) int {
	n := 0
	for _, gpu := range on {
		if !f.closed[gpu.Node] && l.request.accepts(f.classOf[gpu.Node]) {
			n++
		}
	}
	return n
}

// releasesFor finds what is known of the GPUs that somebody wants.
func (f *Free) releasesFor(w gpuRequest) *releaseList {
	for _, l := range f.expected.lists {
		if l.request == w {
			return l
		}
	}
	l := &releaseList{request: w}
	for _, b := range f.expected.runs {
		if b.share == cluster.WholeGPU {
			l.update(release{b.due, int64(b.job), f.countOpen(l, b.on)}, true)
		}
	}
	f.expected.lists = append(f.expected.lists, l)
	for gpu, sharers := range f.expected.sharers {
		if len(sharers) > 0 {
			last := slices.MaxFunc(sharers, func(a, b expectedRun) int { return cmp.Compare(a.due, b.due) })
			l.update(release{last.due, -1 - int64(gpu.Node)*MaxGPUsPerNode - int64(gpu.Index), f.countOpen(l, last.on)}, true)
		}
	}
	return l
}

// FreeAt is from when on n GPUs that a job can run on are expected to be free: not after now where
// they are. ok is false where the open nodes have not so many.
func (f *Free) FreeAt(j *Job, n int) (at time.Duration, ok bool) {
	n -= f.WholeFor(j)
	if n <= 0 {
		return 0, true
	}
	return f.releasesFor(j.gpuRequest()).freedAt(n)
}

// ExpectedFree is how many GPUs that a job can run on are expected to be free at a time.
func (f *Free) ExpectedFree(j *Job, at time.Duration) int {
	return f.WholeFor(j) + f.releasesFor(j.gpuRequest()).freedBy(at)
}

// Overlap reports whether there are GPUs that two jobs can both run on.
func (f *Free) Overlap(a, b *Job) bool {
	return slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.open > 0 && k.suits(a) && k.suits(b) })
}

// releaseList are GPUs that become free, sorted by when, in blocks with their sums: with some ten
// thousand runs, a block's length and the number of blocks are both so small that walking them is
// faster than a tree.
type releaseList struct {
	request gpuRequest
	blocks  []block
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

// update puts a release in or takes it out.
func (l *releaseList) update(r release, in bool) {
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
		l.splitBlock(b)
	}
}

func (l *releaseList) splitBlock(b int) {
	old := l.blocks[b]
	half := len(old.all) / 2
	behind := block{all: slices.Clone(old.all[half:])}
	for i := range behind.all {
		behind.gpus += behind.all[i].gpus
	}
	l.blocks[b] = block{old.gpus - behind.gpus, old.all[:half:half]}
	l.blocks = slices.Insert(l.blocks, b+1, behind)
}

// freedAt is the earliest time by which n GPUs have become free.
func (l *releaseList) freedAt(n int) (time.Duration, bool) {
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

// freedBy is how many become free by a time.
func (l *releaseList) freedBy(at time.Duration) int {
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
