package scheduler

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/timers"
)

// Policies is what an engine is composed of. Order and Place are required.
type Policies struct {
	Order    Orderer
	Place    Placer
	Admit    Admitter   // nil: all jobs are admitted at once
	Backfill Backfiller // nil: no job overtakes a job that blocks a strict walk
	Preempt  Preemptor  // nil: no preemption
	Allocate Allocator  // nil: every job gets the GPUs that it asks for
	Costs    Costs      // nil: saving and loading take no time
	Speeds   Speeds     // nil: speed is proportional to the number of GPUs

	// Caps are the most GPUs that users may hold at once, including all users below them. A user
	// without an entry has no cap. No policy can exceed a cap: a waiting job that would is skipped
	// without blocking others, and a placement that would is refused.
	Caps map[string]int

	// Walk decides what happens when the first waiting job does not fit.
	Walk Walk

	// Depth is how many other jobs are tried after one is blocked, in each walk; 0 means all.
	Depth int

	// Round is how often the engine decides; 0 means at every event.
	Round time.Duration

	// PromptStarts lets an Allocator start new jobs between rounds: when a job arrives, waiting jobs
	// get what it allocates to them, as far as that is free. Running jobs keep their GPUs until the
	// round.
	PromptStarts bool

	// Quantum is how long a started job works at least before it may be preempted. Loading does not
	// count; otherwise jobs that load longer than the quantum would alternate without working. 0 means
	// no minimum, except one minute if ranks grow while jobs run: two jobs of equal attained service
	// would preempt each other all the time.
	Quantum time.Duration

	// CostShare is the largest share of the time between two preemptions that saving and loading may
	// take: at 0.05, a job whose save and load take 10 s is not preempted in its first 200 s of work.
	// 0 means no limit.
	CostShare float64

	// Retries is how often a failed job is started again.
	Retries int
}

// Walk is a way to go through the queue.
type Walk uint8

const (
	// ByOrder is Fill for orders that preempt or rank groups, and Strict for others.
	ByOrder Walk = iota
	// Strict ends at the first job that does not fit, so that it gets the next free GPUs.
	Strict
	// Fill continues with all jobs that fit.
	Fill
)

// minQuantum is the least quantum if ranks grow.
const minQuantum = time.Minute

// Engine keeps the state of a cluster and its jobs and decides by its policies. It does not act and
// has no clock. It is not safe for concurrent use.
type Engine struct {
	policies Policies
	observer Observer // nil: none
	grouper  Grouper  // the order, if it is a Grouper
	fill     bool     // the walk continues behind a job that does not fit
	preempts bool     // waiting jobs may preempt running ones

	// The cluster.
	now     time.Duration
	seconds float64        // now in seconds
	round   time.Duration  // start of the next round; negative before the first
	nodes   []cluster.Node // all that ever joined, by number
	free    *Free
	// per node and GPU, when its last checkpoint is complete; nil if there was none
	ready    [][]time.Duration
	capacity Amount // of the open nodes
	demand   int    // GPUs that the admitted jobs ask for

	// The jobs.
	jobs          map[cluster.JobID]*Job  // all that have not ended
	accounts      map[string]*account     // by user
	tenantQueues  map[string]*tenantQueue // of held jobs, by tenant
	admitting     []*tenantQueue          // queues whose first job may be admitted now
	groups        []*group                // of admitted jobs, by rank
	named         map[string]*group       // the same by name
	roots         map[string][]*group     // and by the first part of their names
	running       runningSet
	waiting       int                        // in all groups
	preemptTimers timerQueue                 // when running jobs become preemptible
	rerankTimers  timerQueue                 // when ranks must be asked for again
	shapes        map[request]*resourceShape // all that ever occurred
	classes       []*equivalenceClass        // the same, without what jobs compute

	// State of the walks.
	walks          uint64       // how many there have been
	candidateRound int          // how often candidates for preemption, or allocations, were listed
	sound          []Allocation // the last valid ones
	resizes        []resize     // and the changes for them
	victims        []*Job       // the last chosen ones
	stopped        []*Job       // those of them that must stop
	blocked        []blockedJob // the first job of each shape that found no place in the last walk
	exhausted      bool         // it started all it could, and since then only time has passed
	measured       bool         // the shortfalls of the blocked jobs are known
	room           bool         // and one of them may find room
	turns          turns

	// The result of the current step, and the memory of the next one's.
	plan, recycled Plan
	errs           []error
}

// New returns an engine for a cluster whose nodes are all up and free.
func New(nodes []cluster.Node, p Policies) (*Engine, error) {
	if p.Order == nil || p.Place == nil {
		return nil, errors.New("a scheduler needs an order and a placement")
	}
	e := &Engine{
		policies: p, free: newFree(nil), jobs: map[cluster.JobID]*Job{}, accounts: map[string]*account{},
		tenantQueues: map[string]*tenantQueue{},
		named:        map[string]*group{}, roots: map[string][]*group{}, shapes: map[request]*resourceShape{}, round: -1,
		preemptTimers: timers.NewQueue(preemptTimerValid), rerankTimers: timers.NewQueue(rerankTimerValid),
	}
	for i, node := range nodes {
		if int(node.ID) != i {
			return nil, fmt.Errorf("node %d is at index %d: %w", node.ID, i, ErrBadNode)
		}
		if err := e.addNode(node); err != nil {
			return nil, err
		}
	}
	e.grouper, _ = p.Order.(Grouper)
	preemptive, ok := p.Order.(Preemptive)
	e.preempts = ok && preemptive.Preempts() && p.Preempt != nil
	e.fill = p.Walk == Fill || p.Walk == ByOrder && (ok && preemptive.Preempts() || e.grouper != nil)
	e.turns.possible = turnsPossible(e)
	return e, nil
}

// Step applies all events until now and returns what to do. Time must not go backwards.
//
// The error joins EventErrors and PolicyErrors, one for each event or answer that was invalid and
// therefore ignored. The plan is valid nonetheless and must be carried out.
func (e *Engine) Step(now time.Duration, events []Event) (Plan, error) {
	if now < e.now {
		return Plan{}, fmt.Errorf("%w: %v after %v", ErrBackwards, now, e.now)
	}
	e.now, e.seconds, e.plan, e.recycled, e.errs = now, now.Seconds(), e.recycled, Plan{}, nil
	e.measured = false
	if e.turns.active && len(events) == 0 && (turnTaking{e}).takeTurn() {
		return e.plan, errors.Join(e.errs...)
	}
	e.exhausted = e.exhausted && len(events) == 0 && !e.turns.active
	e.handleAll(events)
	e.fireTimers()
	e.admitHeld()
	if e.roundDue() {
		e.decide()
	} else if e.promptStarts(events) {
		e.allocate(true)
	}
	return e.plan, errors.Join(e.errs...)
}

// Recycle lets the next step use the memory of a plan, which the caller must not read again. The
// placements in it stay valid, and in memory until they are overwritten.
func (e *Engine) Recycle(p Plan) {
	e.recycled = Plan{Stops: p.Stops[:0], Starts: p.Starts[:0]}
}

// roundDue reports whether it is time to decide. Rounds begin at multiples of their length; a
// missed round is made up for at once.
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

// promptStarts reports whether jobs that arrive now may start before the next round.
func (e *Engine) promptStarts(events []Event) bool {
	return e.policies.PromptStarts && e.policies.Allocate != nil && e.waiting > 0 && e.free.Whole("") > 0 &&
		slices.ContainsFunc(events, func(ev Event) bool { return ev.Kind == Submitted })
}

// decide runs the allocator or a walk, if anything can have changed.
func (e *Engine) decide() {
	if e.policies.Allocate != nil {
		e.allocate(false)
		return
	}
	if !e.exhausted || e.anyRoom() {
		e.walk()
	}
	turnTaking{e}.expectTurns()
}

// fireTimers handles all timers that are due: it asks for ranks again and makes running jobs
// preemptible.
func (e *Engine) fireTimers() {
	for {
		a, ok := e.rerankTimers.PopDue(e.now)
		if !ok {
			break
		}
		e.rerank(a.Subject)
		e.exhausted = e.exhausted && a.Subject.phase == Running
	}
	for {
		a, ok := e.preemptTimers.PopDue(e.now)
		if !ok {
			return
		}
		j := a.Subject
		if at := j.from + minQuantum; e.policies.Quantum == 0 && j.rank.Growth > 0 && e.now < at {
			j.preemptibleAt = at
			e.preemptTimers.Add(e.newTimer(j, at, j.run))
			continue
		}
		j.preemptible = true
		e.enqueue(j)
	}
}

// Wake returns when the engine must be called although no event has happened; ok is false if never.
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
	if promiser, ok := e.policies.Backfill.(Promiser); ok {
		consider(promiser.NextStart())
	}
	if e.preempts && e.waiting > 0 || e.policies.Allocate != nil {
		consider(e.preemptTimers.Next())
		if e.turns.active {
			consider(e.turns.crossing, e.turns.grows)
		} else {
			consider(crossings{e}.next())
		}
	}
	return max(at, e.now), ok
}

// Job returns a job that has not ended, or nil.
func (e *Engine) Job(id cluster.JobID) *Job { return e.jobs[id] }

// Live returns how many jobs have not ended.
func (e *Engine) Live() int { return len(e.jobs) }

// Busy returns how many jobs run.
func (e *Engine) Busy() int { return e.running.size() }

// Queued returns how many admitted jobs wait.
func (e *Engine) Queued() int { return e.waiting }

// Order returns the policy that orders jobs.
func (e *Engine) Order() Orderer { return e.policies.Order }

// Round returns the time between decisions, which are at its multiples; 0 if the engine decides at
// every event.
func (e *Engine) Round() time.Duration { return e.policies.Round }

// Now returns the time of the last step.
func (e *Engine) Now() time.Duration { return e.now }

// Nodes returns all nodes that ever joined.
func (e *Engine) Nodes() []cluster.Node { return e.nodes }

// Free returns what is free.
func (e *Engine) Free() *Free { return e.free }

// Capacity returns the sum over the open nodes.
func (e *Engine) Capacity() Amount { return e.capacity }

// Demand returns how many GPUs the admitted jobs ask for.
func (e *Engine) Demand() int { return e.demand }

// User returns a user's usage.
func (e *Engine) User(name string) Usage {
	u := e.accounts[name].usage(e.now)
	u.Cap = e.policies.capOf(name)
	return u
}

// Policies returns what the engine is composed of.
func (e *Engine) Policies() Policies { return e.policies }

// PreemptibleFor returns how many GPUs that a waiting job could use are held by jobs that may be
// preempted for it now.
func (e *Engine) PreemptibleFor(j *Job) (gpus int) {
	if !e.preempts || j.phase != Waiting {
		return 0
	}
	for v := range e.candidates(j) {
		for _, gpu := range v.placement {
			if e.free.Suits(j, gpu.Node) && e.free.Usable(gpu) {
				gpus++
			}
		}
	}
	return gpus
}

// Promised returns when a waiting job starts at the latest, if the Backfiller has promised that, as
// of the last decision.
func (e *Engine) Promised(j *Job) (at time.Duration, ok bool) {
	book, ok := e.policies.Backfill.(interface {
		ReservedFor(j *Job) (at time.Duration, ok bool)
	})
	if !ok || j.phase != Waiting {
		return 0, false
	}
	at, ok = book.ReservedFor(j)
	return at, ok && at < Forever
}

// Fits reports whether a job can ever start here: whether the cluster, all nodes that ever joined,
// has enough GPUs that suit it. A job that does not fit is refused.
func (e *Engine) Fits(f *cluster.Job) bool {
	j := &Job{facts: *f}
	if j.facts.Share == 0 {
		j.facts.Share = wholeGPU
	}
	j.gpus = e.policies.initialGPUs(&j.facts)
	fewest := j.gpus
	if e.policies.Allocate != nil {
		fewest, _ = j.Bounds()
	}
	return e.free.couldHold(j, fewest)
}

// Waiting returns the admitted jobs without GPUs, group by group.
func (e *Engine) Waiting() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, g := range slices.Clone(e.groups) {
			if !g.waiting.Each(yield) {
				return
			}
		}
	}
}

// Running returns the jobs with GPUs, by Due.
func (e *Engine) Running() iter.Seq[*Job] {
	return func(yield func(*Job) bool) { e.running.sorted().Each(yield) }
}
