package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// SlowdownBound is tau of the bounded slowdown: shorter jobs count as if they ran for that long.
const SlowdownBound = 10 * time.Second

// Boundaries of the classes of jobs.
const (
	smallGPUs = 4
	shortTime = time.Hour
)

// Class returns the class of a job by the GPUs that it asks for and by its length: small-short,
// small-long, large-short or large-long. Small jobs ask for at most 4 GPUs, short ones take at most
// an hour.
func (j *JobResult) Class() string {
	size, length := "large", "long"
	if j.GPUs <= smallGPUs {
		size = "small"
	}
	if j.Length <= shortTime {
		length = "short"
	}
	return size + "-" + length
}

// Wait returns how long an ended job had no GPUs, from its submission to its end.
func (j *JobResult) Wait() time.Duration { return j.JCT() - j.Ran }

// Slowdown returns JCT / length; ok is false for jobs that are not done or have no length.
func (j *JobResult) Slowdown() (s float64, ok bool) {
	if j.Outcome != Done || j.Length <= 0 {
		return 0, false
	}
	return j.JCT().Seconds() / j.Length.Seconds(), true
}

// BoundedSlowdown returns max(1, JCT / max(length, SlowdownBound)); ok is false for jobs that are
// not done. D. Feitelson, "Metrics for Parallel Job Scheduling and Their Convergence", JSSPP 2001:
// without the bound, a job of a millisecond that waits for a minute has a slowdown of 60,000.
func (j *JobResult) BoundedSlowdown() (s float64, ok bool) {
	if j.Outcome != Done {
		return 0, false
	}
	return max(1, j.JCT().Seconds()/max(j.Length, SlowdownBound).Seconds()), true
}

// FinishTimeFairness returns Themis's rho = T_shared / T_independent: the JCT, divided by how long
// the job would take alone on its part of the cluster, which is 1/N of the GPUs. N is the mean
// number of jobs in the system during the job's life. A job that asks for no more than its part
// takes its length there, and others proportionally longer. Above 1 is unfair. ok is false for jobs
// that are not done or have no length.
func (j *JobResult) FinishTimeFairness(gpus int) (rho float64, ok bool) {
	if j.Outcome != Done || j.Length <= 0 || gpus <= 0 {
		return 0, false
	}
	asks := float64(j.GPUs) * float64(j.Share) / cluster.WholeGPU
	return j.JCT().Seconds() / (j.Length.Seconds() * max(1, asks*j.Contention/float64(gpus))), true
}

// Requested returns the GPU-seconds that the job needs on the GPUs that it asks for.
func (j *JobResult) Requested() float64 {
	return j.Length.Seconds() * float64(j.GPUs) * float64(j.Share) / cluster.WholeGPU
}

// Distribution describes a quantity of the jobs. Percentiles are interpolated between the two
// nearest jobs.
type Distribution struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Figures are the quantities by which papers compare schedulers, over the tracked jobs: JCT and
// wait of those that ended, the others of those that are done.
type Figures struct {
	JCT                Distribution `json:"jct_s"`
	Wait               Distribution `json:"wait_s"`
	Slowdown           Distribution `json:"slowdown"`
	BoundedSlowdown    Distribution `json:"bounded_slowdown"`
	Tau                float64      `json:"bounded_slowdown_tau_s"`
	FinishTimeFairness Distribution `json:"finish_time_fairness"`

	// FairnessIndex is Jain's, over users: (sum x)^2 / (n * sum x^2), where x is the part that a user
	// received of the GPU-time that its jobs asked for while they were in the system. 1 is fair, 1/n
	// is least fair.
	FairnessIndex float64 `json:"fairness_index"`
	Users         int     `json:"users"`

	// GPU-hours that the jobs need where they ask for them, and those that they held: more, if loading
	// and lost work took time.
	RequestedGPUHours float64 `json:"gpu_hours_requested"`
	GPUHours          float64 `json:"gpu_hours"`

	Migrations int `json:"migrations"`
	Resizes    int `json:"resizes"`
	Restarts   int `json:"restarts"`

	ByUser     []Group `json:"by_user"`
	ByClass    []Group `json:"by_class"`
	ByPriority []Group `json:"by_priority"`
}

// Group are the figures of some jobs: of a user, a class or a priority.
type Group struct {
	Name string `json:"name"`
	// N jobs have ended, of all Jobs.
	Jobs              int     `json:"jobs"`
	N                 int     `json:"n"`
	RequestedGPUHours float64 `json:"gpu_hours_requested"`
	GPUHours          float64 `json:"gpu_hours"`
	AvgJCT            float64 `json:"avg_jct_s"`
	P99JCT            float64 `json:"p99_jct_s"`
	AvgWait           float64 `json:"avg_wait_s"`
	BoundedSlowdown   float64 `json:"avg_bounded_slowdown"`
	Preemptions       int     `json:"preemptions"`
	// Received is the part that the group received of the GPU-time that its jobs asked for while they
	// were in the system.
	Received float64 `json:"received"`
}

// figures computes the figures of jobs on a cluster with a number of GPUs.
func figures(jobs *JobResults, gpus int) *Figures {
	f := &Figures{Tau: SlowdownBound.Seconds()}
	f.distributions(jobs, gpus)
	users, classes, priorities := groups{}, groups{}, groups{}
	var j JobResult
	for i := range jobs.Len() {
		j = jobs.Unplaced(i)
		f.RequestedGPUHours += j.Requested()
		f.GPUHours += j.GPUSeconds
		f.Migrations += int(j.Migrations)
		f.Resizes += int(j.Resizes)
		f.Restarts += int(j.Restarts)
		users.add(j.User, &j)
		classes.add(j.Class(), &j)
		priorities.add(strconv.Itoa(j.Priority), &j)
	}
	f.RequestedGPUHours, f.GPUHours = hours(f.RequestedGPUHours), hours(f.GPUHours)
	f.ByUser, f.ByClass, f.ByPriority = users.byName(), classes.byName(), priorities.byPriority()
	f.Users = len(f.ByUser)
	f.FairnessIndex = fairnessIndex(f.ByUser)
	return f
}

// distributions describes the quantities.
func (f *Figures) distributions(jobs *JobResults, gpus int) {
	var j JobResult
	all := []struct {
		to     *Distribution
		of     func() (float64, bool)
		values []float64
	}{
		{to: &f.JCT, of: func() (float64, bool) { return j.JCT().Seconds(), j.Outcome != Unfinished }},
		{to: &f.Wait, of: func() (float64, bool) { return j.Wait().Seconds(), j.Outcome != Unfinished }},
		{to: &f.Slowdown, of: func() (float64, bool) { return j.Slowdown() }},
		{to: &f.BoundedSlowdown, of: func() (float64, bool) { return j.BoundedSlowdown() }},
		{to: &f.FinishTimeFairness, of: func() (float64, bool) { return j.FinishTimeFairness(gpus) }},
	}
	for k := range all {
		all[k].values = make([]float64, 0, jobs.Len())
	}
	for i := range jobs.Len() {
		j = jobs.Unplaced(i)
		for k := range all {
			if value, ok := all[k].of(); ok {
				all[k].values = append(all[k].values, value)
			}
		}
	}
	for k := range all {
		*all[k].to = distribution(all[k].values)
	}
}

// distribution describes values, which it sorts.
func distribution(values []float64) (d Distribution) {
	if len(values) == 0 {
		return d
	}
	total := 0.0
	for _, value := range values {
		total += value
	}
	slices.Sort(values)
	at := func(share float64) float64 {
		place := share * float64(len(values)-1)
		below := int(place)
		above := min(below+1, len(values)-1)
		return toNanos(values[below] + (values[above]-values[below])*(place-float64(below)))
	}
	d.Mean = toNanos(total / float64(len(values)))
	d.Median, d.P95, d.P99, d.Max = at(0.5), at(0.95), at(0.99), at(1)
	return d
}

// fairnessIndex is the formula of R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness
// and Discrimination", 1984. Users without an ended job do not count.
func fairnessIndex(users []Group) float64 {
	sum, squares, n := 0.0, 0.0, 0
	for i := range users {
		if x := users[i].Received; users[i].N > 0 {
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	if squares == 0 {
		return 1
	}
	return toNanos(sum * sum / (float64(n) * squares))
}

// hours converts seconds.
func hours(seconds float64) float64 { return toNanos(seconds / 3600) }

// tally adds up the jobs of a group.
type tally struct {
	Group
	jcts         []time.Duration
	jct, wait    sum
	slowdown     float64
	done         int
	priority     int     // of its first job
	asked, taken float64 // GPU-seconds of ended jobs: over their time in the system, and held
}

// groups are the jobs of groups added up, by the groups' names.
type groups map[string]*tally

// add adds a job to a group.
func (g groups) add(name string, j *JobResult) {
	t := g[name]
	if t == nil {
		t = &tally{Group: Group{Name: name}, priority: j.Priority}
		g[name] = t
	}
	t.add(j)
}

// byName returns the figures, sorted by name.
func (g groups) byName() []Group {
	all := make([]Group, 0, len(g))
	for _, t := range g {
		all = append(all, t.group())
	}
	slices.SortFunc(all, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// byPriority returns the figures of groups by priority, the most urgent first.
func (g groups) byPriority() []Group {
	all := g.byName()
	slices.SortFunc(all, func(a, b Group) int { return cmp.Compare(g[b.Name].priority, g[a.Name].priority) })
	return all
}

// add adds a job.
func (t *tally) add(j *JobResult) {
	t.Jobs++
	t.Preemptions += j.Preemptions
	t.RequestedGPUHours += j.Requested()
	t.GPUHours += j.GPUSeconds
	if j.Outcome == Unfinished {
		return
	}
	t.N++
	t.jcts = append(t.jcts, j.JCT())
	t.jct.add(j.JCT())
	t.wait.add(j.Wait())
	t.asked += j.JCT().Seconds() * float64(j.GPUs) * float64(j.Share) / cluster.WholeGPU
	t.taken += j.GPUSeconds
	if s, ok := j.BoundedSlowdown(); ok {
		t.slowdown += s
		t.done++
	}
}

// group returns the figures.
func (t *tally) group() Group {
	g := t.Group
	slices.Sort(t.jcts)
	g.RequestedGPUHours, g.GPUHours = hours(g.RequestedGPUHours), hours(g.GPUHours)
	g.AvgJCT, g.P99JCT, g.AvgWait = t.jct.mean(t.N), percentile(t.jcts, 0.99), t.wait.mean(t.N)
	if t.done > 0 {
		g.BoundedSlowdown = toNanos(t.slowdown / float64(t.done))
	}
	if t.asked > 0 {
		g.Received = toNanos(t.taken / t.asked)
	} else if t.N > 0 {
		g.Received = 1 // the jobs ended as soon as they had arrived
	}
	return g
}
