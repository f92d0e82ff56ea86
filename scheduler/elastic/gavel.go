package elastic

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Gavel allocates types of GPU: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies
// for Deep Learning Workloads", OSDI 2020.
//
// Its target is the share of time that each job runs on each type: max-min fair, measured in
// throughput (maxmin.go). It is computed again when the jobs or the GPUs change. Rounds approximate
// it (§5): the pair of a job and a type with the largest ratio of target to received share is
// first. Pairs with a zero share come last, so that no usable GPU is idle.
//
// Received and due shares count from when Gavel first sees a job, so that a new job has nothing to
// catch up on and targets may change. Jobs get as many GPUs as they ask for.
//
// The paper's weights divide a job's throughput in the target: a job of twice the weight is due
// twice the throughput where jobs compete. A job has the weight of its user, doubled for each
// priority above 0 and halved for each below.
type Gavel struct {
	// Weights are users' weights; 1 for users without an entry.
	Weights map[string]float64

	table    *throughput.Table
	now      time.Duration  // of the last call
	accounts []*account     // by the job's number
	round    uint64         // the number of the call
	numbers  map[string]int // of the types of GPU seen so far

	// Of the last call; the machines are numbered by how often they have changed.
	machines struct {
		number     uint64
		types      []string
		all, spare []machine
	}

	caps      *caps // at the last call
	classes   map[jobClass]*classState
	targetFor targetInput

	// Memory of the last call.
	lists  jobLists
	avail  supply
	pairs  []pair
	spare  []*account
	kinds  []*classState
	groups []group
	input  targetInput
	chosen round
	answer []scheduler.Allocation
}

// account is what Gavel knows of a job.
type account struct {
	id     cluster.JobID
	job    *scheduler.Job
	class  *classState
	shares []typeShare // by the type's number
}

// typeShare is a job's target share of its time on a type, and its due and received time there, in
// seconds.
type typeShare struct{ target, due, had float64 }

// on returns the account of a type.
func (a *account) on(number int) *typeShare {
	for len(a.shares) <= number {
		a.shares = append(a.shares, typeShare{})
	}
	return &a.shares[number]
}

// classState is the jobs of a class at the last call.
type classState struct {
	jobClass
	round   uint64 // that its count belongs to
	count   int
	example *scheduler.Job
	target  []float64 // by type; NaN where the jobs cannot run

	rates   []float64 // without caps,
	ratesOn uint64    // on the machines of this number
}

// jobClass is what jobs must have in common to be in one group.
type jobClass struct {
	model       string
	gpus        int
	gpuType     string
	memoryBytes int64
	weight      float64

	// For capped jobs, the nearest user with a cap, and the share of each GPU.
	capped string
	share  int
}

// classOf returns the class of a job.
func (g *Gavel) classOf(j *scheduler.Job) jobClass {
	k := jobClass{
		model: j.Model(), gpus: j.GPUs(), gpuType: j.OwnGPUType(), memoryBytes: j.GPUMemoryBytes(), weight: g.weight(j),
	}
	if bounds := g.caps.bounds(j); len(bounds) > 0 {
		k.capped, k.share = g.caps.names[bounds[0]], j.Share()
	}
	return k
}

// maxPriority bounds the effect of a priority: beyond, weights would be out of proportion for the
// linear program.
const maxPriority = 10

// weight returns a job's weight.
func (g *Gavel) weight(j *scheduler.Job) float64 {
	weight, named := g.Weights[j.User()]
	if !named {
		weight = 1
	}
	return math.Ldexp(weight, max(-maxPriority, min(maxPriority, j.Priority())))
}

// NewGavel returns a Gavel with a table of models.
func NewGavel(t *throughput.Table) *Gavel {
	return &Gavel{
		table: t, numbers: map[string]int{}, classes: map[jobClass]*classState{},
	}
}

// negligible is a share that is only rounding error.
const negligible = 1e-6

// Allocate implements scheduler.Allocator. The answer is valid until the next call.
func (g *Gavel) Allocate(v scheduler.View) []scheduler.Allocation {
	lists := g.lists.read(v)
	jobs, avail := lists.active, &g.avail
	avail.read(v, lists)
	types := avail.types()
	g.round++
	g.caps = avail.caps
	accounts, kinds := g.accrue(v, jobs)
	g.updateTarget(v, kinds, avail, types)
	numbers := make([]int, len(types))
	for t, gpuType := range types {
		numbers[t] = g.number(gpuType)
	}
	pairs := g.pairs[:0]
	for i, j := range jobs {
		a, on := accounts[i], runsOn(v, j)
		for t, gpuType := range types {
			if share, able := a.class.share(t); able {
				s := a.on(numbers[t])
				pairs = append(pairs, pair{j, i, gpuType, priority(share, s.due, s.had), share, on == gpuType})
				s.target = share
			}
		}
	}
	g.pairs = pairs
	g.answer = g.answer[:0]
	for _, p := range g.chosen.choose(pairs, len(jobs), avail) {
		g.answer = append(g.answer, scheduler.Allocation{Job: p.job, GPUs: p.job.GPUs(), GPUType: p.gpuType})
	}
	return g.answer
}

// number returns the number of a type of GPU.
func (g *Gavel) number(gpuType string) int {
	n, ok := g.numbers[gpuType]
	if !ok {
		n = len(g.numbers)
		g.numbers[gpuType] = n
	}
	return n
}

// accrue accounts for the time since the last call, counts the jobs of each class, and forgets jobs
// that are gone. It returns the account of each job, and the classes. The jobs are by number.
func (g *Gavel) accrue(v scheduler.View, jobs []*scheduler.Job) (accounts []*account, kinds []*classState) {
	passed := (v.Now() - g.now).Seconds()
	before, accounts, kinds := g.accounts, slices.Grow(g.spare[:0], len(jobs)), g.kinds[:0]
	for _, j := range jobs {
		for len(before) > 0 && before[0].id < j.ID() {
			before = before[1:]
		}
		var a *account
		if len(before) > 0 && before[0].id == j.ID() {
			a = before[0]
		} else {
			a = &account{id: j.ID()}
		}
		g.accrueJob(v, j, a, passed)
		if a.class.count++; a.class.round != g.round {
			a.class.round, a.class.count, a.class.example = g.round, 1, j
			kinds = append(kinds, a.class)
		}
		accounts = append(accounts, a)
	}
	clear(g.accounts)
	g.now, g.spare, g.accounts, g.kinds = v.Now(), g.accounts, accounts, kinds
	return accounts, kinds
}

// accrueJob accounts for the time that has passed for one job, and sets its class.
func (g *Gavel) accrueJob(v scheduler.View, j *scheduler.Job, a *account, passed float64) {
	for n := range a.shares {
		s := &a.shares[n]
		s.due += s.target * passed
		s.target = 0
	}
	if on := runsOn(v, j); on != nowhere {
		a.on(g.number(on)).had += (v.Now() - max(g.now, j.Since())).Seconds()
	}
	if a.job == j && a.class.capped == "" && len(g.caps.names) == 0 {
		return // only caps can change the class of a job
	}
	a.job = j
	if k := g.classOf(j); a.class == nil || a.class.jobClass != k {
		a.class = g.class(k)
	}
}

// targetInput is what a target depends on.
type targetInput struct {
	types   []string
	classes []jobClass
	numbers []float64 // of each class its jobs and rates, then the capacity
}

// equal reports whether two inputs have the same target.
func (t *targetInput) equal(other *targetInput) bool {
	return slices.Equal(t.types, other.types) && slices.Equal(t.classes, other.classes) &&
		slices.Equal(t.numbers, other.numbers)
}

// class returns the state of a class.
func (g *Gavel) class(k jobClass) *classState {
	state := g.classes[k]
	if state == nil {
		state = &classState{jobClass: k}
		g.classes[k] = state
	}
	return state
}

// nowhere is the type of a job that does not run.
const nowhere = "\x00"

// runsOn returns the type of GPU that a job runs on.
func runsOn(v scheduler.View, j *scheduler.Job) string {
	if j.Phase() != scheduler.Running {
		return nowhere
	}
	return v.Nodes()[j.Placement()[0].Node].GPUType
}

// updateTarget computes the target, unless its input is unchanged.
func (g *Gavel) updateTarget(v scheduler.View, kinds []*classState, avail *supply, types []string) {
	slices.SortFunc(kinds, func(a, b *classState) int {
		return cmp.Or(
			cmp.Compare(a.model, b.model),
			cmp.Compare(a.gpus, b.gpus),
			cmp.Compare(a.gpuType, b.gpuType),
			cmp.Compare(a.memoryBytes, b.memoryBytes),
			cmp.Compare(a.weight, b.weight),
			cmp.Compare(a.capped, b.capped),
			cmp.Compare(a.jobClass.share, b.jobClass.share),
		)
	})
	input, groups := &g.input, g.groups[:0]
	input.types, input.classes, input.numbers = types, input.classes[:0], input.numbers[:0]
	g.readMachines(v, types)
	for _, k := range kinds {
		groups = append(groups, group{float64(k.count), float64(k.gpus), g.knownRates(v, k, types), k.weight})
		input.classes = append(input.classes, k.jobClass)
		input.numbers = append(append(input.numbers, float64(k.count)), groups[len(groups)-1].rate...)
	}
	for _, gpuType := range types {
		input.numbers = append(input.numbers, float64(avail.byType[gpuType]))
	}
	capacity := input.numbers[len(input.numbers)-len(types):]
	g.groups = groups
	if input.equal(&g.targetFor) {
		return
	}
	g.input, g.targetFor = g.targetFor, g.input
	maps.DeleteFunc(g.classes, func(_ jobClass, k *classState) bool { return k.round != g.round })
	for i, shares := range maxmin(groups, capacity, g.bounds(kinds)...) {
		for t := range shares {
			if groups[i].rate[t] == 0 || capacity[t] < groups[i].gpus {
				shares[t] = math.NaN() // it cannot run there
			}
		}
		kinds[i].target = shares
	}
}

// bounds returns the users' caps in the form that maxmin takes.
func (g *Gavel) bounds(kinds []*classState) []bound {
	bounds := make([]bound, len(g.caps.names))
	for i := range bounds {
		bounds[i] = bound{float64(g.caps.most[i]) / cluster.WholeGPU, make([]float64, len(kinds))}
	}
	for at, k := range kinds {
		for _, i := range g.caps.bounds(k.example) {
			bounds[i].of[at] = float64(k.gpus*k.jobClass.share) / cluster.WholeGPU
		}
	}
	return bounds
}

// share returns the jobs' target share of a type; able is false if they cannot run there.
func (k *classState) share(t int) (share float64, able bool) {
	share = k.target[t]
	if share < negligible {
		share = 0
	}
	return share, !math.IsNaN(share)
}

// machine is what throughput depends on of a node.
type machine struct {
	gpuType     string
	gpus        int
	memoryBytes int64
	closed      bool
}

// readMachines notes whether the machines or the types of GPU have changed.
func (g *Gavel) readMachines(v scheduler.View, types []string) {
	now, nodes := g.machines.spare[:0], v.Nodes()
	for i := range nodes {
		n := &nodes[i]
		now = append(now, machine{n.GPUType, n.GPUs, n.GPUMemoryBytes, v.Free().Closed(n.ID)})
	}
	m := &g.machines
	if m.number == 0 || !slices.Equal(now, m.all) || !slices.Equal(types, m.types) {
		m.number++
	}
	m.types, m.all, m.spare = types, now, m.all
}

// knownRates is rates for the jobs of a class. Without caps, they change only with the machines.
func (g *Gavel) knownRates(v scheduler.View, k *classState, types []string) []float64 {
	if len(g.caps.names) > 0 {
		return g.rates(v, k.example, types)
	}
	if k.ratesOn != g.machines.number {
		k.rates, k.ratesOn = g.rates(v, k.example, types), g.machines.number
	}
	return k.rates
}

// rates returns a job's throughput by type, each on the fewest nodes possible.
func (g *Gavel) rates(v scheduler.View, j *scheduler.Job, types []string) []float64 {
	m, rates, largest := g.table.Model(j.Model()), make([]float64, len(types)), make([]int, len(types))
	if !g.caps.most.has(g.caps.bounds(j), j.GPUs()*j.Share()) {
		return rates // its user may never hold that many
	}
	nodes := v.Nodes()
	for i := range nodes {
		if t, ok := slices.BinarySearch(types, nodes[i].GPUType); ok && !v.Free().Closed(nodes[i].ID) &&
			suits(j, &nodes[i]) {
			largest[t] = max(largest[t], nodes[i].GPUs)
		}
	}
	for t, gpuType := range types {
		if largest[t] > 0 {
			n := throughput.Nodes(j.GPUs(), largest[t])
			rates[t] = m.Rate(n, j.GPUs()) * m.On(gpuType, n, j.GPUs())
		}
	}
	return rates
}
