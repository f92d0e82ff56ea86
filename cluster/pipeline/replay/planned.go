package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/cluster/pipeline/ways"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Costs are what a change of nodes takes, besides the interrupted iteration.
type Costs struct {
	ways.Costs
	Detect     time.Duration // until a death is detected
	Checkpoint time.Duration // time between checkpoints, which do not delay training; 0 for none
	Restart    time.Duration // from a checkpoint
	// Backup is how long a pipeline computes until others have that, too, unless several nodes die at
	// once; 0: they never have.
	Backup time.Duration
}

// Planned is the input of a replay by planning: package ways answers every event.
type Planned struct {
	Plan  *pipeline.Plan
	Trace []Event
	Costs Costs
}

// Spent is how the time was spent.
type Spent struct {
	Training   time.Duration // completed iterations, and the last one, which the trace's end cuts off
	InFlight   time.Duration // work of interrupted iterations that pipelines did that lost a node
	RolledBack time.Duration // iterations that were repeated because a layer was lost on all nodes
	Detecting  time.Duration
	Pausing    time.Duration
	Copying    time.Duration
	Restarting time.Duration
	Stopped    time.Duration // too few nodes left
}

// Sum returns the total.
func (s *Spent) Sum() time.Duration {
	return s.Training + s.InFlight + s.RolledBack + s.Detecting + s.Pausing + s.Copying + s.Restarting + s.Stopped
}

// Outcome is the result of a planned run.
type Outcome struct {
	Steps, Replans, Restarts int
	Spent                    Spent
	Bytes                    int64 // copied between nodes
	End                      time.Duration
}

// phase is a remaining part of a recovery.
type phase struct {
	left time.Duration
	of   *time.Duration
}

// computed is a part of an iteration: in billionths, and how long it took.
type computed struct {
	of   int64
	took time.Duration
}

// plannedState is the state of a planned run.
type plannedState struct {
	Planned
	ctx   context.Context
	out   Outcome
	now   time.Duration // start of the current iteration, or progress of a recovery
	saved int           // iterations in the last checkpoint

	// base is the plan that ran last, change what has happened since, and next the resulting plan.
	// During a recovery, phases are its remaining parts.
	base, next *pipeline.Plan
	change     replan.Change
	phases     []phase
	stopped    bool
	// joining says that new nodes wait for the current iteration to end. State changes in every
	// iteration, so there is nothing to copy to them before.
	joining bool
	// half is how much of the current iteration was computed before deaths, and keeps of it what the
	// pipelines have that lost no node.
	half, kept computed

	// Nodes that come back are new ones, with a number that no node had before.
	numbers map[cluster.NodeID]cluster.NodeID
	unused  cluster.NodeID
}

// Replay runs a trace to its last event, which only marks the end.
func (p Planned) Replay(ctx context.Context) (*Outcome, error) {
	if p.Costs.BytesPerSecond < 1 {
		return nil, &pipeline.InputError{
			Where:   "bandwidth",
			Problem: fmt.Sprint(p.Costs.BytesPerSecond),
			Want:    "bytes a second, at least 1",
		}
	}
	s := &plannedState{Planned: p, ctx: ctx, base: p.Plan, next: p.Plan, numbers: map[cluster.NodeID]cluster.NodeID{}}
	for _, node := range p.Plan.Nodes() {
		s.numbers[node] = node
		s.unused = max(s.unused, node+1)
	}
	for i := 0; i < len(p.Trace); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, end := p.Trace[i].At, i
		for end < len(p.Trace) && p.Trace[end].At == at {
			end++
		}
		err := s.until(at)
		if end == len(p.Trace) && err == nil {
			s.finish(at)
			break
		}
		if err == nil {
			err = s.handle(at, p.Trace[i:end])
		}
		if err != nil {
			return nil, fmt.Errorf("at %s s: %w", pipeline.Seconds(at), err)
		}
		i = end
	}
	return &s.out, nil
}

// until advances time: first the remaining recovery, then whole iterations.
func (s *plannedState) until(at time.Duration) error {
	if s.stopped {
		s.out.Spent.Stopped += at - s.now
		s.now = at
		return nil
	}
	if s.joining {
		began := s.now
		if s.train(at, 1); s.now == began {
			return nil
		}
		s.joining = false
		if err := s.replan(false); err != nil {
			return err
		}
	}
	for len(s.phases) > 0 && s.now < at {
		took := min(s.phases[0].left, at-s.now)
		*s.phases[0].of += took
		s.now += took
		if s.phases[0].left -= took; s.phases[0].left == 0 {
			s.phases = s.phases[1:]
		}
	}
	if len(s.phases) == 0 {
		s.base, s.change, s.half = s.next, replan.Change{}, computed{}
		s.train(at, math.MaxInt64)
	}
	return nil
}

// train completes whole iterations until a time, at most the given number. Of the first one only
// the rest is computed.
func (s *plannedState) train(at time.Duration, most int64) {
	step := time.Duration(s.base.IterationTime())
	if rest := part(step, whole-s.kept.of); s.kept.of > 0 && at-s.now >= rest && most > 0 {
		s.out.Steps, most, s.kept = s.out.Steps+1, most-1, computed{}
		s.out.Spent.Training += rest
		s.now += rest
	} else if s.kept.of > 0 {
		return
	}
	steps := min(int64((at-s.now)/step), most)
	s.out.Steps += int(steps)
	s.out.Spent.Training += time.Duration(steps) * step
	s.now += time.Duration(steps) * step
	s.checkpoint(step)
}

// checkpoint counts the iterations that were done at the last multiple of the checkpoint interval.
func (s *plannedState) checkpoint(step time.Duration) {
	if every := s.Costs.Checkpoint; every > 0 {
		s.saved = max(s.saved, s.out.Steps-int((s.now%every)/step)-1)
	}
}

// handle applies the events of one time, together with all changes since the plan that ran last. A
// death interrupts the current iteration; new nodes wait for its end.
func (s *plannedState) handle(at time.Duration, events []Event) error {
	died := false
	for _, e := range events {
		if e.Up {
			s.addNode(e.Node)
			continue
		}
		number, present := s.numbers[e.Node]
		if !present {
			return &pipeline.InputError{
				Problem: fmt.Sprintf("node %d goes down", e.Node),
				Want:    "a node of the plan, or one that came up before",
			}
		}
		died = s.removeNode(number) || died
		delete(s.numbers, e.Node)
	}
	switch {
	case s.stopped:
		return s.resume(at)
	case len(s.phases) > 0:
		s.now = at
	case !died && (at > s.now || len(s.change.Joined) == 0):
		s.joining = len(s.change.Joined) > 0
		return nil
	default:
		s.joining = false
		s.interrupt(at)
	}
	s.keep()
	return s.replan(died)
}

// interrupt ends the computing of an iteration in its middle.
func (s *plannedState) interrupt(at time.Duration) {
	took, step := at-s.now, time.Duration(s.base.IterationTime())
	s.half = computed{s.kept.of + int64(float64(whole)*float64(took)/float64(step)), s.kept.took + took}
	s.out.Spent.Training += took
	s.kept, s.now = s.half, at
}

// keep keeps what pipelines have computed of the iteration that have lost no node.
func (s *plannedState) keep() {
	var living int64
	for _, each := range s.base.Pipelines {
		if !slices.ContainsFunc(each.Nodes, func(node cluster.NodeID) bool { return slices.Contains(s.change.Dead, node) }) {
			living += int64(each.Microbatches)
		}
	}
	every := s.Costs.Backup
	if len(s.change.Dead) > 1 {
		every = 0
	}
	lost := part(sinceBackup(s.half.took, every), whole-living*whole/int64(s.base.Spec.Microbatches))
	left := whole - int64(float64(whole)*float64(lost)/float64(max(s.half.took, 1)))
	kept := computed{int64(part(time.Duration(s.half.of), left)), s.half.took - lost}
	s.lose(s.kept.took-kept.took, &s.out.Spent.InFlight)
	s.kept = kept
}

// lose accounts for time that has trained for nothing.
func (s *plannedState) lose(took time.Duration, as *time.Duration) {
	s.out.Spent.Training -= took
	*as += took
}

// addNode gives a node that comes up a new number.
func (s *plannedState) addNode(node cluster.NodeID) {
	s.numbers[node] = s.unused
	s.change.Joined = append(s.change.Joined, s.unused)
	s.unused++
}

// machines returns the machines of the nodes that are there: a node that comes back is on its old
// one.
func (s *plannedState) machines() (now pipeline.Machines) {
	for _, each := range s.Plan.Machines {
		var nodes []cluster.NodeID
		for _, node := range each {
			if number, present := s.numbers[node]; present {
				nodes = append(nodes, number)
			}
		}
		now = append(now, nodes)
	}
	return now
}

// removeNode reports whether the node trains, or is about to.
func (s *plannedState) removeNode(number cluster.NodeID) bool {
	if i := slices.Index(s.change.Joined, number); i >= 0 {
		s.change.Joined = slices.Delete(s.change.Joined, i, i+1)
		return len(s.phases) > 0
	}
	s.change.Dead = append(s.change.Dead, number)
	return true
}

// replan starts a recovery now.
func (s *plannedState) replan(died bool) error {
	s.change.Machines = s.machines()
	chosen, err := ways.Choose(ways.All, s.base, s.change, s.Costs.Costs)
	var infeasible *pipeline.InfeasibleError
	if errors.As(err, &infeasible) {
		s.stopped, s.phases = true, nil
		return nil
	}
	if err != nil {
		return err
	}
	r := chosen[0].Result
	s.next, s.phases = r.Plan, nil
	s.out.Replans++
	s.out.Bytes += r.Bytes
	if died {
		s.phases = append(s.phases, phase{s.Costs.Detect, &s.out.Spent.Detecting})
	}
	s.phases = append(s.phases, phase{s.Costs.Pause, &s.out.Spent.Pausing}, phase{chosen[0].Copying, &s.out.Spent.Copying})
	if len(r.Lost) > 0 {
		s.rollBack()
	}
	s.dropEmptyPhases()
	return nil
}

// dropEmptyPhases removes phases that take no time.
func (s *plannedState) dropEmptyPhases() {
	s.phases = slices.DeleteFunc(s.phases, func(p phase) bool { return p.left == 0 })
}

// rollBack returns to the last checkpoint.
func (s *plannedState) rollBack() {
	s.lose(s.kept.took, &s.out.Spent.InFlight)
	s.half, s.kept = computed{}, computed{}
	lost := time.Duration(s.out.Steps-s.saved) * time.Duration(s.base.IterationTime())
	s.lose(min(lost, s.out.Spent.Training), &s.out.Spent.RolledBack)
	s.out.Steps = s.saved
	s.out.Restarts++
	s.phases = append(s.phases, phase{s.Costs.Restart, &s.out.Spent.Restarting})
}

// resume continues from a checkpoint as soon as there are enough nodes.
func (s *plannedState) resume(at time.Duration) error {
	var nodes []cluster.NodeID
	for _, number := range s.numbers {
		nodes = append(nodes, number)
	}
	slices.Sort(nodes)
	_, used, best := instance.Nearest(s.ctx, s.base, len(nodes))
	if best == nil {
		return nil
	}
	s.next = instance.Place(s.base, best, nodes[:used])
	s.next.Spare = nodes[used:]
	err := instance.Split(s.next)
	if err != nil {
		return err
	}
	if s.next, err = instance.OnMachines(s.ctx, s.next, s.machines()); err != nil {
		return err
	}
	s.stopped, s.now = false, at
	s.phases = []phase{{s.Costs.Pause, &s.out.Spent.Pausing}}
	s.out.Replans++
	s.rollBack()
	s.dropEmptyPhases()
	return nil
}

// finish accounts for what the trace's end cuts off.
func (s *plannedState) finish(at time.Duration) {
	s.out.End = at
	if len(s.phases) == 0 && !s.stopped {
		s.out.Spent.Training += at - s.now
	}
}
