package scheduler

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// expectedReleases tracks when allocated GPUs are expected to become free. It is maintained only if
// there is a Backfiller. A GPU that several jobs share becomes free with the last of them.
type expectedReleases struct {
	runs       map[cluster.JobID]expectedRun
	sharers    map[cluster.GPU][]expectedRun
	lists      []*releaseList // one for each requested set of GPUs
	deviations int
	setbacks   int
	// earlyUntil is the latest expected end of the runs that have ended before it since the last walk.
	earlyUntil time.Duration
}

// expectedRun is a run as recorded in expectedReleases.
type expectedRun struct {
	job        cluster.JobID
	since, due time.Duration
	on         cluster.Placement
	share      int
}

// expect records a job that has started, or whose expected end has changed.
func (f *Free) expect(j *Job) {
	a := &f.expected
	if a.runs == nil {
		a.runs, a.sharers = map[cluster.JobID]expectedRun{}, map[cluster.GPU][]expectedRun{}
	}
	if b, ok := a.runs[j.facts.ID]; ok {
		a.deviations++
		f.setBack()
		f.record(b, false)
	}
	b := expectedRun{j.facts.ID, j.since, j.Due(), j.placement, j.facts.Share}
	a.runs[b.job] = b
	f.record(b, true)
}

// forget removes a job that no longer runs.
func (f *Free) forget(j *Job, now time.Duration) {
	b, ok := f.expected.runs[j.facts.ID]
	if !ok {
		return
	}
	if b.due != now {
		f.expected.deviations++
	}
	if b.due > now {
		f.expected.earlyUntil = max(f.expected.earlyUntil, b.due)
	}
	delete(f.expected.runs, b.job)
	f.record(b, false)
}

// extendOverdue doubles the expected length of every run that should have ended by now. Expecting
// an overdue run to end at any time would reserve its GPUs again and again, and let every job
// overtake the one that waits for them.
func (f *Free) extendOverdue(now time.Duration) {
	all := f.releasesFor(gpuRequest{})
	for len(all.blocks) > 0 && all.blocks[0].all[0].at <= now {
		r := all.blocks[0].all[0]
		if r.from >= 0 {
			f.extend(f.expected.runs[cluster.JobID(r.from)], now)
			continue
		}
		number := -1 - r.from
		gpu := cluster.GPU{Node: cluster.NodeID(number / MaxGPUsPerNode), Index: int32(number % MaxGPUsPerNode)}
		for _, b := range f.expected.sharers[gpu] {
			if b.due <= now {
				f.extend(b, now)
			}
		}
	}
}

// extend moves the expected end of an overdue run.
func (f *Free) extend(b expectedRun, now time.Duration) {
	f.expected.deviations++
	f.setBack()
	f.record(b, false)
	b.due = now + max(1, now-b.since)
	f.expected.runs[b.job] = b
	f.record(b, true)
}

// Deviations changes whenever a run does not end when expected, a node is closed or opened, or a
// GPU is occupied or vacated. While it is constant, reservations based on the expected releases can
// be kept.
func (f *Free) Deviations() int { return f.expected.deviations }

// Setbacks changes whenever GPUs are, or may be, free later than was expected: a run takes longer,
// or changes its GPUs, a job starts without regard to reservations, a job runs that the engine has
// not started, or other GPUs are usable. While it is constant, promised starts can be kept.
func (f *Free) Setbacks() int { return f.expected.setbacks }

// EarlyUntil returns the latest expected end of the runs that have ended before it since the last
// walk: until then more is free than was expected.
func (f *Free) EarlyUntil() time.Duration { return f.expected.earlyUntil }

// setBack counts a setback.
func (f *Free) setBack() { f.expected.setbacks++ }

// invalidate discards everything that depends on which GPUs are usable.
func (a *expectedReleases) invalidate() {
	a.deviations++
	a.setbacks++
	a.lists = nil
}

// Changes counts all changes of what is free, now or later. Results stay valid while it is
// constant.
func (f *Free) Changes() uint64 { return f.changes }

// record adds a run to (or removes it from) all release lists.
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

// recordShared adds or removes a shared GPU, which is free when the last of its jobs has ended.
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

// countOpen counts the GPUs of a placement that are in a list and usable.
func (f *Free) countOpen(l *releaseList, on cluster.Placement) int {
	n := 0
	for _, gpu := range on {
		if f.Usable(gpu) && l.request.accepts(f.classOf[gpu.Node]) {
			n++
		}
	}
	return n
}

// releasesFor returns the expected releases of the GPUs that meet a request.
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

// FreeAt returns when n GPUs that a job can run on are expected to be free; a time in the past if
// they are free now. ok is false if the open nodes have fewer.
func (f *Free) FreeAt(j *Job, n int) (at time.Duration, ok bool) {
	n -= f.WholeFor(j)
	if n <= 0 {
		return 0, true
	}
	return f.releasesFor(j.gpuRequest()).freedAt(n)
}

// ExpectedFree returns how many GPUs that a job can run on are expected to be free at a time.
func (f *Free) ExpectedFree(j *Job, at time.Duration) int {
	return f.WholeFor(j) + f.releasesFor(j.gpuRequest()).freedBy(at)
}

// Overlap reports whether there are open GPUs that both jobs can run on.
func (f *Free) Overlap(a, b *Job) bool {
	return slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.open > 0 && k.suits(a) && k.suits(b) })
}

// releaseList is a list of expected releases, sorted by time, in blocks with their sums. With some
// ten thousand runs, a block's length and the number of blocks are both so small that a linear
// search is faster than a tree.
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
	from int64 // the job, or negative for a shared GPU
	gpus int
}

const blockLength = 64

func (r *release) compare(other *release) int {
	return cmp.Or(cmp.Compare(r.at, other.at), cmp.Compare(r.from, other.from))
}

// update adds or removes a release.
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

// splitBlock divides a block that has become too long.
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

// freedAt returns the earliest time by which n GPUs have become free.
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

// freedBy returns how many GPUs become free by a time.
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
