package scheduler

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler/timers"
)

// Policies is what an engine is put together from. Order and Place must be there.
type Policies struct {
	Order    Orderer
	Place    Placer
	Admit    Admitter   // nil: everybody is let in at once
	Backfill Backfiller // nil: nobody overtakes a job that blocks a strict walk
	Preempt  Preemptor  // nil: nobody is stopped for others
	Allocate Allocator  // nil: every job gets the GPUs that it asks for
	Costs    Costs      // nil: stopping and going on take no time
	Speeds   Speeds     // nil: a job is as fast as its share of the GPUs that it asks for

	// Caps are the most GPUs that users may hold at once, each with all below him; who is not in it
	// has no bound. No policy can break one: a waiting job that would is passed over, blocking nobody,
	// and a plan that would is refused.
	Caps map[string]int

	// Walk says what happens when the first waiting job does not fit.
	Walk Walk

	// Depth is how many jobs are tried in the place of one that blocks, each time; 0 means all.
	Depth int

	// Round is how often the engine decides; 0 means whenever something happens.
	Round time.Duration

	// Quantum is how long a job that was started works at least before it may be stopped: were loading
	// part of it, jobs that load longer than that would take turns and never work. 0 means no time,
	// but a minute where ranks grow while jobs run: two jobs of equal attained service would take the
	// GPUs from each other at every moment.
	Quantum time.Duration

	// CostShare is the most that stopping and going on may cost of the time between them: a job whose
	// save and load take 10 s is not stopped in its first 200 s of work where it is 0.05. 0 means that
	// the price does not matter.
	CostShare float64

	// Retries is how often a job may fail and be tried again.
	Retries int
}

// Walk is a way to go through the queue.
type Walk uint8

const (
	// ByOrder is Fill for orders that are preemptive or rank groups, and Strict for others.
	ByOrder Walk = iota
	// Strict ends at the first job that does not fit, so that it gets the next GPUs that become free.
	Strict
	// Fill goes on with whoever fits.
	Fill
)

// minQuantum is the least quantum where ranks grow.
const minQuantum = time.Minute

// Engine keeps the state of a cluster and its jobs and decides by its policies. It does not act and
// has no clock. It is not safe for concurrent use.
type Engine struct {
	policies Policies
	grouper  Grouper // the order, if it is one; or nil
	fill     bool    // the walk does not end at the first job that does not fit
	preempts bool    // waiting jobs may take the GPUs of running ones

	// The cluster.
	now     time.Duration
	seconds float64        // the same in seconds
	round   time.Duration  // when the next round begins; below 0 before the first
	nodes   []cluster.Node // all that there ever were, by number
	free    *Free
	// per node and GPU, when the last checkpoint of it is complete; nil where none was ever taken
	ready    [][]time.Duration
	capacity Amount // of the nodes that take jobs
	demand   int    // GPUs that the admitted jobs ask for

	// Who is in it.
	jobs          map[cluster.JobID]*Job  // all that have not ended
	accounts      map[string]*account     // by user
	tenantQueues  map[string]*tenantQueue // of held jobs, by name
	admitting     []*tenantQueue          // lanes whose first job may be let in now
	groups        []*group                // of admitted jobs, by rank
	named         map[string]*group       // the same by name
	roots         map[string][]*group     // and by the first part of their names
	running       runningSet
	waiting       int                        // how many wait, in all groups
	preemptTimers timerQueue                 // when running jobs may be stopped
	rerankTimers  timerQueue                 // when ranks must be asked for again
	shapes        map[request]*resourceShape // all that jobs ever wanted
	classes       []*equivalenceClass        // the same, whatever the jobs compute
	overlap       overlapState               // of these

	// What the walks know.
	walks          uint64       // how many there have been
	candidateRound int          // how often candidates for a stop, or allocations, were looked through
	victims        []*Job       // the last ones that were chosen
	stopped        []*Job       // those of them who must go
	blocked        []blockedJob // the first of each shape that found no place in the last walk
	settled        bool         // since then nothing has happened but that time passed
	measured       bool         // it is known what the blocked jobs lack
	room           bool         // and one of them may find room

	// What the step at now comes to.
	plan Plan
	errs []error
}

// New makes an engine for a cluster of which everything is up and free.
func New(nodes []cluster.Node, p Policies) (*Engine, error) {
	if p.Order == nil || p.Place == nil {
		return nil, errors.New("a scheduler needs an order and a placement")
	}
	e := &Engine{
		policies: p, free: newFree(nil), jobs: map[cluster.JobID]*Job{}, accounts: map[string]*account{}, tenantQueues: map[string]*tenantQueue{},
		named: map[string]*group{}, roots: map[string][]*group{}, shapes: map[request]*resourceShape{}, round: -1,
		preemptTimers: timers.NewQueue(preemptTimerValid), rerankTimers: timers.NewQueue(rerankTimerValid),
	}
	for i, node := range nodes {
		if int(node.ID) != i {
			return nil, fmt.Errorf("node %d stands at place %d: %w", node.ID, i, ErrBadNode)
		}
		if err := e.addNode(node); err != nil {
			return nil, err
		}
	}
	e.grouper, _ = p.Order.(Grouper)
	preemptive, ok := p.Order.(Preemptive)
	e.preempts = ok && preemptive.Preempts() && p.Preempt != nil
	e.fill = p.Walk == Fill || p.Walk == ByOrder && (ok && preemptive.Preempts() || e.grouper != nil)
	return e, nil
}

// Step tells the engine what has happened until now, all at once, and asks what to do. Time must
// not go backwards.
//
// An error is a list of EventError and PolicyError, each of something that made no sense and of
// which no notice was taken: the plan is good all the same, and must be carried out.
func (e *Engine) Step(now time.Duration, events []Event) (Plan, error) {
	if now < e.now {
		return Plan{}, fmt.Errorf("%w: %v after %v", ErrBackwards, now, e.now)
	}
	e.now, e.seconds, e.plan, e.errs = now, now.Seconds(), Plan{}, nil
	e.measured = false
	e.settled = e.settled && len(events) == 0
	for _, ev := range sortEvents(events) {
		if err := e.handle(&ev); err != nil {
			e.errs = append(e.errs, &EventError{ev, err})
		}
	}
	e.fireTimers()
	e.admitHeld()
	if e.roundDue() {
		e.decide()
	}
	return e.plan, errors.Join(e.errs...)
}

// roundDue reports whether it is time to decide. Rounds begin at multiples of their length; one that
// nobody woke the engine for in time is caught up with.
func (e *Engine) roundDue() bool {
	r := e.policies.Round
	if r == 0 {
		return true
	}
	if e.round < 0 {
		e.round = (e.now + r - 1) / r * r
	}
	if e.now < e.round {
		return false
	}
	e.round = (e.now/r + 1) * r
	return true
}

func (e *Engine) decide() {
	if e.policies.Allocate != nil {
		e.allocate()
		return
	}
	if !e.settled || e.anyRoom() {
		e.walk()
	}
}

// fireTimers does what has become due.
func (e *Engine) fireTimers() {
	for {
		a, ok := e.rerankTimers.PopDue(e.now)
		if !ok {
			break
		}
		e.rerank(a.Subject)
		e.settled = e.settled && a.Subject.phase == Running
	}
	for {
		a, ok := e.preemptTimers.PopDue(e.now)
		if !ok {
			return
		}
		j := a.Subject
		if at := j.from + minQuantum; e.policies.Quantum == 0 && j.rank.Growth > 0 && e.now < at {
			j.preemptibleAt = at
			e.preemptTimers.Add(e.newTimer(j, at, j.runs))
			continue
		}
		j.preemptible = true
		e.enqueue(j)
	}
}

// Wake is when the engine wants to be asked though nothing has happened; ok is false where it does
// not.
func (e *Engine) Wake() (at time.Duration, ok bool) {
	if e.policies.Round > 0 {
		return e.round, e.waiting > 0 || e.policies.Allocate != nil && len(e.jobs) > 0
	}
	consider := func(t time.Duration, valid bool) {
		if valid && (!ok || t < at) {
			at, ok = t, true
		}
	}
	consider(e.rerankTimers.Next())
	if e.preempts && e.waiting > 0 || e.policies.Allocate != nil {
		consider(e.preemptTimers.Next())
		consider(e.nextCrossing())
	}
	return max(at, e.now), ok
}

// Job finds a job that has not ended, or nil.
func (e *Engine) Job(id cluster.JobID) *Job { return e.jobs[id] }

// Live is how many jobs have not ended.
func (e *Engine) Live() int { return len(e.jobs) }

// Busy is how many of them run.
func (e *Engine) Busy() int { return e.running.size() }

// Queued is how many of them are admitted and wait.
func (e *Engine) Queued() int { return e.waiting }

// Now is the time of the last step.
func (e *Engine) Now() time.Duration { return e.now }

// Nodes are all nodes that there ever were.
func (e *Engine) Nodes() []cluster.Node { return e.nodes }

// Free tells what is free.
func (e *Engine) Free() *Free { return e.free }

// Capacity is what the nodes that take jobs have.
func (e *Engine) Capacity() Amount { return e.capacity }

// Demand is what the admitted jobs ask for.
func (e *Engine) Demand() int { return e.demand }

// User tells what a user has.
func (e *Engine) User(name string) Usage {
	u := e.accounts[name].usage(e.now)
	u.Cap = e.capOf(name)
	return u
}

// capOf is what a user may hold.
func (e *Engine) capOf(name string) int {
	if most, capped := e.policies.Caps[name]; capped {
		return most
	}
	return Uncapped
}

// Waiting are the admitted jobs without GPUs, group by group.
func (e *Engine) Waiting() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, g := range slices.Clone(e.groups) {
			if !g.waiting.root.each(yield) {
				return
			}
		}
	}
}

// Running are the jobs with GPUs, by when they are due.
func (e *Engine) Running() iter.Seq[*Job] {
	return func(yield func(*Job) bool) { e.running.sorted().each(yield) }
}
