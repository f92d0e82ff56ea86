package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// ledger is the free state kept in the simplest way: thousandths by GPU. Everything else is counted
// from scratch.
type ledger struct {
	nodes   []cluster.Node
	free    map[cluster.GPU]int
	closed  map[cluster.NodeID]bool
	foreign map[cluster.GPU]bool
	runs    map[cluster.JobID]*Job
}

func newLedger(nodes []cluster.Node) *ledger {
	l := &ledger{nodes, map[cluster.GPU]int{}, map[cluster.NodeID]bool{}, map[cluster.GPU]bool{}, map[cluster.JobID]*Job{}}
	for _, node := range nodes {
		for i := range node.GPUs {
			l.free[cluster.GPU{Node: node.ID, Index: int32(i)}] = cluster.WholeGPU
		}
	}
	return l
}

func (l *ledger) suits(j *Job, node cluster.NodeID) bool {
	n := l.nodes[node]
	return !l.closed[node] && (j.GPUType() == "" || j.GPUType() == n.GPUType) &&
		(n.GPUMemoryBytes == 0 || j.GPUMemoryBytes() <= n.GPUMemoryBytes)
}

// gpus returns the usable ones that suit a job and have at least a free share.
func (l *ledger) gpus(j *Job, share int) (found []cluster.GPU) {
	for _, node := range l.nodes {
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			if l.suits(j, node.ID) && !l.foreign[gpu] && l.free[gpu] >= share {
				found = append(found, gpu)
			}
		}
	}
	return found
}

// expected counts the GPUs that are free at a time, if all runs end when expected.
func (l *ledger) expected(j *Job, at time.Duration) int {
	busy := map[cluster.GPU]bool{}
	for _, run := range l.runs {
		for _, gpu := range run.placement {
			busy[gpu] = busy[gpu] || run.Due() > at
		}
	}
	n := 0
	for _, gpu := range l.gpus(j, 0) {
		if !busy[gpu] {
			n++
		}
	}
	return n
}

func mixedCluster(r *rand.Rand, nodes int) []cluster.Node {
	var all []cluster.Node
	for i := range nodes {
		node := cluster.Node{ID: cluster.NodeID(i), GPUs: 1 << r.IntN(4), Rack: fmt.Sprint(i / 4)}
		node.GPUType = []string{"", "A", "B"}[r.IntN(3)]
		node.GPUMemoryBytes = []int64{0, 16, 80}[r.IntN(3)]
		all = append(all, node)
	}
	return all
}

func anyJob(r *rand.Rand, id int) *Job {
	j := &Job{facts: cluster.Job{ID: cluster.JobID(id), GPUs: 1 + r.IntN(6), Share: cluster.WholeGPU}, speed: 1}
	j.facts.GPUType = []string{"", "", "A", "B"}[r.IntN(4)]
	j.facts.GPUMemoryBytes = []int64{0, 0, 16, 40}[r.IntN(4)]
	j.facts.Estimate = time.Duration(r.IntN(20))
	if r.IntN(3) == 0 {
		j.facts.GPUs, j.facts.Share = 1, []int{100, 250, 250, 333, 500, 999}[r.IntN(6)]
	}
	return j
}

// TestFreeAgainstRecount starts, ends and expects jobs, closes and opens nodes, and occupies and
// vacates GPUs, at random. The indices of Free must agree with counting everything.
func TestFreeAgainstRecount(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes := mixedCluster(r, 1+r.IntN(70))
		f, l := newFree(nodes), newLedger(nodes)
		for step := range 150 {
			at := time.Duration(step)
			switch node := cluster.NodeID(r.IntN(len(nodes))); {
			case r.IntN(12) == 0:
				l.closed[node] = !l.closed[node]
				f.setState(node, map[bool]NodeState{true: NodeLost}[l.closed[node]])
			case r.IntN(8) == 0:
				gpu := cluster.GPU{Node: node, Index: int32(r.IntN(nodes[node].GPUs))}
				l.foreign[gpu] = !l.foreign[gpu]
				f.setForeign(node, f.Occupied(node)^1<<gpu.Index)
			case r.IntN(12) == 0:
				postponeAll(f, l, at)
			case r.IntN(3) == 0 && len(l.runs) > 0:
				endOne(r, f, l, at)
			default:
				startOne(r, f, l, step)
			}
			recount(t, f, l, anyJob(r, -1), at)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// postponeAll moves overdue runs, unless another job on the same GPU is expected to stay longer.
// The ledger computes a run's end from its job, whose start is moved.
func postponeAll(f *Free, l *ledger, at time.Duration) {
	f.extendOverdue(at)
	var overdue []*Job
	for _, j := range l.runs {
		stays := func(gpu cluster.GPU) bool {
			for _, other := range l.runs {
				if other.Due() > at && slices.Contains(other.placement, gpu) {
					return true
				}
			}
			return false
		}
		usable := func(gpu cluster.GPU) bool { return !l.closed[gpu.Node] && !l.foreign[gpu] }
		onOpen := slices.ContainsFunc(j.placement, usable)
		if onOpen && !slices.ContainsFunc(j.placement, stays) {
			overdue = append(overdue, j)
		}
	}
	for _, j := range overdue {
		j.from += at + max(1, at-j.since) - j.Due()
	}
}

func startOne(r *rand.Rand, f *Free, l *ledger, step int) {
	j := anyJob(r, step)
	all := l.gpus(j, j.facts.Share)
	if len(all) < j.facts.GPUs {
		return
	}
	r.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	on := cluster.Placement(all[:j.facts.GPUs])
	slices.SortFunc(on, func(a, b cluster.GPU) int { return int(a.Node-b.Node)*100 + int(a.Index-b.Index) })
	j.placement, j.phase, j.since, j.from = on, Running, time.Duration(step), time.Duration(step)
	for _, gpu := range on {
		l.free[gpu] -= j.facts.Share
	}
	l.runs[j.ID()] = j
	f.allocate(on, j.facts.Share)
	f.expect(j)
	if r.IntN(8) == 0 {
		j.from += 5
		f.expect(j)
	}
}

func endOne(r *rand.Rand, f *Free, l *ledger, at time.Duration) {
	var ids []cluster.JobID
	for id := range l.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	j := l.runs[ids[r.IntN(len(ids))]]
	before := f.Deviations()
	f.forget(j, at)
	f.release(j.placement, j.facts.Share)
	if (f.Deviations() != before) != (j.Due() != at) {
		panic("Deviations must count a run that does not end when expected")
	}
	for _, gpu := range j.placement {
		l.free[gpu] += j.facts.Share
	}
	delete(l.runs, j.ID())
}

func recount(t *testing.T, f *Free, l *ledger, j *Job, at time.Duration) {
	t.Helper()
	same := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s for %+v: %v, counted %v", what, j.facts, got, want)
		}
	}
	whole := l.gpus(j, cluster.WholeGPU)
	by, racks := map[cluster.NodeID]int{}, map[int]int{}
	for _, gpu := range whole {
		by[gpu.Node]++
		racks[f.Rack(gpu.Node)]++
	}
	for rack := range f.Racks() {
		same("free GPUs of a rack", f.OnRack(j, rack), racks[rack])
	}
	same("free GPUs", f.WholeFor(j), len(whole))
	same(
		"free GPUs of a type",
		f.Whole(j.GPUType()),
		len(l.gpus(&Job{facts: cluster.Job{GPUType: j.GPUType()}}, cluster.WholeGPU)),
	)
	largest, counts := 0, [9]int{}
	for _, node := range l.nodes {
		largest = max(largest, by[node.ID])
		if l.suits(j, node.ID) {
			counts[by[node.ID]]++
		}
		for i := range node.GPUs {
			gpu, want := cluster.GPU{Node: node.ID, Index: int32(i)}, 0
			if !l.closed[node.ID] && !l.foreign[gpu] {
				want = l.free[gpu]
			}
			same("share", f.Share(gpu), want)
			same("mask", f.Mask(node.ID)&(1<<i) != 0, want == cluster.WholeGPU)
		}
	}
	same("most free GPUs on a node", f.Largest(j), largest)
	for n, count := range counts {
		same(fmt.Sprint("nodes with ", n), f.Count(j, n), count)
	}
	for node, n := range by {
		for _, gpu := range f.Pick(nil, node, n) {
			same("picked GPU", slices.Contains(whole, gpu), true)
		}
	}
	recountNext(t, f, l, j, by)
	recountShares(t, f, l, j)
	recountReleases(t, f, l, j, at)
}

func recountNext(t *testing.T, f *Free, l *ledger, j *Job, by map[cluster.NodeID]int) {
	t.Helper()
	for least := range 4 {
		var want, got []cluster.NodeID
		for _, node := range l.nodes {
			if n := by[node.ID]; l.suits(j, node.ID) && n >= least && n <= least+2 {
				want = append(want, node.ID)
			}
		}
		for node, ok := f.Next(j, 0, least, least+2); ok; node, ok = f.Next(j, node+1, least, least+2) {
			got = append(got, node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("nodes with %d to %d free: %v, counted %v", least, least+2, got, want)
		}
	}
}

func recountShares(t *testing.T, f *Free, l *ledger, j *Job) {
	t.Helper()
	some := l.gpus(j, j.facts.Share)
	if gpu, ok := f.FirstShare(j); ok != (len(some) > 0) || ok && gpu != some[0] {
		t.Errorf("the first GPU with %d free: %v %v, counted %v", j.facts.Share, gpu, ok, some)
	}
	some = slices.DeleteFunc(some, func(gpu cluster.GPU) bool { return l.free[gpu] == cluster.WholeGPU })
	slices.SortStableFunc(some, func(a, b cluster.GPU) int { return l.free[a] - l.free[b] })
	if gpu, ok := f.TightestShare(j); ok != (len(some) > 0) || ok && gpu != some[0] {
		t.Errorf("the tightest GPU with %d free: %v %v, counted %v", j.facts.Share, gpu, ok, some)
	}
}

func recountReleases(t *testing.T, f *Free, l *ledger, j *Job, now time.Duration) {
	t.Helper()
	for at := now; at < now+25; at += 3 {
		// What is free now counts even if its jobs should still run, and overdue GPUs count as free.
		if got, want := f.ExpectedFree(j, at), l.expected(j, at); got != want {
			t.Errorf("%d GPUs expected at %d, counted %d", got, at, want)
		}
	}
	for n := 1; n < 30; n += 4 {
		at, ok := f.FreeAt(j, n)
		if !ok {
			if all := l.expected(j, 1<<40); all >= n {
				t.Errorf("%d GPUs are never free, counted %d", n, all)
			}
			continue
		}
		if l.expected(j, at) < n || at > 0 && l.expected(j, at-1) >= n {
			t.Errorf("%d GPUs at %d: counted %d then and %d before", n, at, l.expected(j, at), l.expected(j, at-1))
		}
	}
}

func TestFewestNodes(t *testing.T) {
	nodes := []cluster.Node{
		{ID: 0, GPUs: 4},
		{ID: 1, GPUs: 8},
		{ID: 2, GPUs: 8, GPUType: "A"},
		{ID: 3, GPUs: 2, GPUMemoryBytes: 16},
	}
	f := newFree(nodes)
	f.allocate(cluster.Placement{{Node: 1}}, cluster.WholeGPU)
	small, typed := &Job{facts: cluster.Job{GPUMemoryBytes: 40}}, &Job{facts: cluster.Job{GPUType: "A"}}
	anyone := &Job{}
	for _, c := range []struct {
		job  *Job
		gpus int
		want int
	}{
		{anyone, 1, 1},
		{anyone, 8, 1},
		{anyone, 9, 2},
		{anyone, 20, 3},
		{anyone, 22, 4},
		{anyone, 23, 0},
		{small, 21, 0},
		{small, 20, 3},
		{typed, 8, 1},
		{typed, 9, 0},
	} {
		if got := f.FewestNodes(c.job, c.gpus); got != c.want {
			t.Errorf("%d GPUs for %+v lie on %d nodes, not %d", c.gpus, c.job.facts, c.want, got)
		}
	}
	f.setState(1, NodeLost)
	if got := f.FewestNodes(anyone, 9); got != 2 {
		t.Errorf("without node 1, 9 GPUs lie on 2 nodes, not %d", got)
	}
}
