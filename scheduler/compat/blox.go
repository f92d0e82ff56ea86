package compat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/sim"
)

const (
	// bloxRound is Blox's default.
	bloxRound = 300 * time.Second
	// bloxStarved is how long a job waits before it is first for the rest of its life. It is Blox's
	// only measure against starvation.
	bloxStarved = 3_600_000 * time.Second
)

// Blox simulates as Blox's simulator does: in rounds, at whose beginning running jobs are credited
// with a whole round. Its quirks: finish and start times are round boundaries, and the start is the
// first boundary after the launch; LAS counts time and not GPU-time; a running job never moves;
// scattered placement takes up to the job's number of GPUs of each node, and fails unless the sum
// is exactly that number; victims are stopped from the end of the order, even if the job does not
// fit afterwards; the first job that does not fit ends the walk; stopping costs nothing.
func Blox(ctx context.Context, jobs []cluster.Job, o Options) (*sim.Result, error) {
	if err := checkOrder("blox", o.Order); err != nil {
		return nil, err
	}
	load, err := ParseAdmission(o.Admission)
	if err != nil {
		return nil, err
	}
	if err := checkSupported("blox", jobs, capacity(o.Nodes)); err != nil {
		return nil, err
	}
	if o.Round == 0 {
		o.Round = bloxRound
	}
	b := &blox{
		Options: o, load: load, jobs: jobs, states: make([]bloxJob, len(jobs)), arrivals: arrivals(jobs),
		rec: sim.NewRecorder(packed.Of(jobs...), o.Nodes, o.Track),
	}
	for _, node := range o.Nodes {
		b.free = append(b.free, 1<<node.GPUs-1)
	}
	return b.run(ctx)
}

// blox is a running simulation.
type blox struct {
	Options
	load     float64
	jobs     []cluster.Job
	states   []bloxJob
	rec      *sim.Recorder
	now      time.Duration
	arrivals []int    // not yet arrived, next first
	held     []int    // arrived, not admitted
	active   []int    // in the order of admission
	free     []uint64 // per node, a bit for each free GPU

	victims, launched []int // of the round
	idle              int   // consecutive rounds without a change
}

type bloxJob struct {
	attained, waited time.Duration
	running          bool
	starved          bool
	on               cluster.Placement
}

func (b *blox) run(ctx context.Context) (*sim.Result, error) {
	for ; ; b.now += b.Round {
		b.credit()
		if b.rec.Left() == 0 {
			return b.rec.Result(b.now, false), nil
		}
		if ctx.Err() != nil {
			return b.rec.Result(b.now, true), nil
		}
		if b.now > sim.Horizon {
			return nil, fmt.Errorf("profile blox: %w", sim.ErrHorizon)
		}
		b.admit()
		order := b.order()
		b.walk(order)
		b.commit()
		b.rec.Sample(b.sample())
		if b.Progress != nil {
			b.Progress(b.rec.Ended(), len(b.jobs))
		}
		if err := b.checkStuck(order); err != nil {
			return nil, err
		}
		b.skipIdleRounds()
	}
}

// credit lets the placed jobs run for a round.
func (b *blox) credit() {
	b.active = slices.DeleteFunc(b.active, func(i int) bool {
		s := &b.states[i]
		if !s.running {
			return false
		}
		s.attained += b.Round
		b.rec.Started(i, b.now)
		if s.attained < b.jobs[i].Length {
			return false
		}
		b.rec.Finished(i, b.now, sim.Done)
		b.release(i)
		return true
	})
}

// admit admits held jobs while the demand of the active jobs, including those just admitted, allows
// it.
func (b *blox) admit() {
	for len(b.arrivals) > 0 && b.jobs[b.arrivals[0]].Submit <= b.now {
		b.held, b.arrivals = append(b.held, b.arrivals[0]), b.arrivals[1:]
	}
	demand := b.demand()
	threshold := b.load * float64(capacity(b.Nodes))
	for len(b.held) > 0 && (b.load == 0 || float64(demand) <= threshold) {
		i := b.held[0]
		b.held, b.active = b.held[1:], append(b.active, i)
		demand += b.jobs[i].GPUs
	}
}

// demand returns how many GPUs the active jobs ask for.
func (b *blox) demand() (gpus int) {
	for _, i := range b.active {
		gpus += b.jobs[i].GPUs
	}
	return gpus
}

// order sorts the active jobs; equal ones keep the order of admission.
func (b *blox) order() []int {
	key := func(i int) time.Duration {
		switch b.Order {
		case "fifo":
			return b.jobs[i].Submit
		case "srtf":
			return b.jobs[i].Length - b.states[i].attained
		}
		return b.states[i].attained // las, and tiresias, whose queues Blox fills and then ignores
	}
	order := slices.Clone(b.active)
	slices.SortStableFunc(order, func(x, y int) int {
		if sx, sy := b.states[x].starved, b.states[y].starved; sx != sy {
			if sx {
				return -1
			}
			return +1
		}
		return cmp.Compare(key(x), key(y))
	})
	return order
}

// walk places waiting jobs until one does not fit.
func (b *blox) walk(order []int) {
	b.victims, b.launched = b.victims[:0], b.launched[:0]
	for place, i := range order {
		if b.states[i].running {
			continue
		}
		on, found := b.scattered(b.jobs[i].GPUs)
		for last := len(order) - 1; !found && last > place; last-- {
			if victim := order[last]; b.states[victim].running {
				b.victims = append(b.victims, victim)
				b.release(victim)
				on, found = b.scattered(b.jobs[i].GPUs)
			}
		}
		if !found {
			return
		}
		b.allocate(i, on)
	}
}

// scattered goes through the nodes, adding up to n free GPUs of each, until it has exactly n.
func (b *blox) scattered(n int) (on cluster.Placement, found bool) {
	for node, free := range b.free {
		for index, left := 0, n; free>>index != 0 && left > 0; index++ {
			if free>>index&1 != 0 {
				on = append(on, cluster.GPU{Node: cluster.NodeID(node), Index: int32(index)})
				left--
			}
		}
		if len(on) == n {
			return on, true
		}
		if len(on) > n {
			return nil, false
		}
	}
	return nil, false
}

// allocate takes the GPUs for a job and notes that it was launched.
func (b *blox) allocate(i int, on cluster.Placement) {
	for _, gpu := range on {
		b.free[gpu.Node] &^= 1 << gpu.Index
	}
	b.states[i].on = on
	b.launched = append(b.launched, i)
}

func (b *blox) release(i int) {
	s := &b.states[i]
	for _, gpu := range s.on {
		b.free[gpu.Node] |= 1 << gpu.Index
	}
	s.on, s.running = nil, false
}

// commit applies the round's decisions. A job that was stopped and placed again counts as
// preempted.
func (b *blox) commit() {
	for _, i := range b.victims {
		b.rec.Preempted(i, b.now)
	}
	for _, i := range b.launched {
		b.states[i].running = true
		b.rec.Ran(i, b.now, b.states[i].on)
	}
	for _, i := range b.active {
		s := &b.states[i]
		if s.running || slices.Contains(b.victims, i) {
			s.waited = 0
		} else if s.waited += b.Round; s.waited >= bloxStarved {
			s.starved = true
		}
	}
}

// sample returns the state of the cluster.
func (b *blox) sample() sim.Sample {
	m := sim.Sample{At: b.now, Held: len(b.held), Demand: b.demand(), Capacity: capacity(b.Nodes)}
	for _, i := range b.active {
		if b.states[i].running {
			m.Running++
			m.BusyMilli += int64(b.jobs[i].GPUs) * cluster.WholeGPU
		} else {
			m.Waiting++
		}
	}
	return m
}

// checkStuck returns an error if nothing can ever change: no job runs or will arrive, and the jobs
// that have waited long enough to be first already are.
func (b *blox) checkStuck(order []int) error {
	b.idle++
	if len(b.launched) > 0 || len(b.arrivals) > 0 ||
		slices.ContainsFunc(b.active, func(i int) bool { return b.states[i].running }) {
		b.idle = 0
	}
	if time.Duration(b.idle) <= bloxStarved/b.Round+1 {
		return nil
	}
	first := &b.jobs[order[0]]
	return fmt.Errorf(
		"profile blox: %w: job %d needs %d GPUs, and Blox's scattered placement, which takes up to %d of each node, "+
			"never reaches exactly that number",
		ErrStuck,
		first.ID,
		first.GPUs,
		first.GPUs,
	)
}

// skipIdleRounds skips rounds without jobs.
func (b *blox) skipIdleRounds() {
	if len(b.active) > 0 || len(b.held) > 0 || len(b.arrivals) == 0 {
		return
	}
	if rounds := (b.jobs[b.arrivals[0]].Submit - b.now - 1) / b.Round; rounds > 0 {
		b.now += rounds * b.Round
	}
}
