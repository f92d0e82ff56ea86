package sim

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// Faults describe failures. Every random number depends only on the seed and its subject, so that
// two policies see the same nodes fail at the same times.
type Faults struct {
	Seed uint64
	// JobMTBF is how long a job works on average until it fails; 0 means never.
	JobMTBF time.Duration
	// NodeMTBF and NodeRepair are the mean times for which a node is up and down; 0 means no failures.
	NodeMTBF, NodeRepair time.Duration
	// Nodes are explicit node events, in any order.
	Nodes []NodeEvent
}

// NodeEvent is an event of a node.
type NodeEvent struct {
	At   time.Duration
	Node cluster.NodeID
	Kind scheduler.Kind // NodeDown, NodeUp or Drained
}

// Streams of random numbers, one for each kind of failure.
const (
	jobStream = iota + 1
	nodeStream
)

// faults generates the failures of a simulation.
type faults struct {
	Faults
	listed []NodeEvent // not yet reported
	drawn  draws       // the next random change of each node
	down   []bool
	downs  int
}

type draw struct {
	at     time.Duration
	node   cluster.NodeID
	random *rand.Rand
}

// draws is a heap by time, then by node.
type draws []draw

func (d draws) Len() int { return len(d) }
func (d draws) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].node < d[j].node
}
func (d draws) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *draws) Push(x any)   { *d = append(*d, x.(draw)) }

func (d *draws) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func newFaults(f Faults, nodes []cluster.Node) *faults {
	all := &faults{Faults: f, listed: slices.Clone(f.Nodes), down: make([]bool, len(nodes))}
	slices.SortStableFunc(
		all.listed,
		func(a, b NodeEvent) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Node, b.Node)) },
	)
	if f.NodeMTBF > 0 {
		for i := range nodes {
			random := rand.New(rand.NewPCG(f.Seed, nodeStream<<56|uint64(i)))
			all.drawn = append(all.drawn, draw{exponential(random, f.NodeMTBF), cluster.NodeID(i), random})
		}
		heap.Init(&all.drawn)
	}
	return all
}

// exponential returns a random time of at least a nanosecond, and small enough to be added to
// another.
func exponential(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(max(1, random.ExpFloat64()*float64(mean)), math.MaxInt64/4))
}

// next returns when the next node event happens.
func (f *faults) next() (at time.Duration, more bool) {
	if len(f.listed) > 0 {
		at, more = f.listed[0].At, true
	}
	if len(f.drawn) > 0 && (!more || f.drawn[0].at < at) {
		at, more = f.drawn[0].at, true
	}
	return at, more
}

// nodesDown reports whether a node is down: its return may start jobs that wait while nothing else
// happens.
func (f *faults) nodesDown() bool { return f.downs > 0 }

// appendDue appends the node events until now. A node that is down does not fail again.
func (f *faults) appendDue(events []scheduler.Event, now time.Duration) []scheduler.Event {
	for len(f.listed) > 0 && f.listed[0].At <= now {
		events = f.apply(events, f.listed[0])
		f.listed = f.listed[1:]
	}
	for len(f.drawn) > 0 && f.drawn[0].at <= now {
		each := &f.drawn[0]
		event := NodeEvent{At: each.at, Node: each.node, Kind: scheduler.NodeDown}
		mean := f.NodeRepair
		if f.down[each.node] {
			event.Kind, mean = scheduler.NodeUp, f.NodeMTBF
		}
		events = f.apply(events, event)
		each.at += exponential(each.random, mean)
		heap.Fix(&f.drawn, 0)
	}
	return events
}

// apply appends an event unless the node is already in that state.
func (f *faults) apply(events []scheduler.Event, e NodeEvent) []scheduler.Event {
	up := e.Kind == scheduler.NodeUp
	if f.down[e.Node] != up {
		return events
	}
	f.down[e.Node] = !up
	if up {
		f.downs--
	} else {
		f.downs++
	}
	return append(events, scheduler.Event{Kind: e.Kind, Node: e.Node})
}

// failure returns when a run of a job fails, if it works from the given time on.
func (f *faults) failure(job cluster.JobID, run int, from time.Duration) (at time.Duration, fails bool) {
	if f.JobMTBF <= 0 {
		return 0, false
	}
	random := rand.New(rand.NewPCG(f.Seed^uint64(job)*0x9e3779b97f4a7c15, jobStream<<56|uint64(run)))
	return from + exponential(random, f.JobMTBF), true
}

// PerturbEstimates returns jobs with every estimate multiplied or divided by a factor of up to
// 1+by, which depends on the seed and the job.
func PerturbEstimates(jobs *packed.Jobs, by float64, seed uint64) *packed.Jobs {
	return jobs.Map(func(_ int, j *cluster.Job) {
		random := rand.New(rand.NewPCG(seed, uint64(j.ID)))
		factor := math.Exp((2*random.Float64() - 1) * math.Log1p(by))
		j.Estimate = max(time.Nanosecond, time.Duration(float64(j.Length)*factor))
	})
}
