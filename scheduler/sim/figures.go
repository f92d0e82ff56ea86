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
func figures(jobs []JobResult, gpus int) *Figures {
	values := make([]float64, 0, len(jobs))
	over := func(of func(*JobResult) (float64, bool)) Distribution {
		values = values[:0]
		for i := range jobs {
			if value, ok := of(&jobs[i]); ok {
				values = append(values, value)
			}
		}
		return distribution(values)
	}
	f := &Figures{
		JCT:             over(func(j *JobResult) (float64, bool) { return j.JCT().Seconds(), j.Outcome != Unfinished }),
		Wait:            over(func(j *JobResult) (float64, bool) { return j.Wait().Seconds(), j.Outcome != Unfinished }),
		Slowdown:        over((*JobResult).Slowdown),
		BoundedSlowdown: over((*JobResult).BoundedSlowdown),
		FinishTimeFairness: over(func(j *JobResult) (float64, bool) {
			return j.FinishTimeFairness(gpus)
		}),
		Tau: SlowdownBound.Seconds(),
	}
	for i := range jobs {
		j := &jobs[i]
		f.RequestedGPUHours += j.Requested()
		f.GPUHours += j.GPUSeconds
		f.Migrations += int(j.Migrations)
		f.Resizes += int(j.Resizes)
		f.Restarts += int(j.Restarts)
	}
	f.RequestedGPUHours, f.GPUHours = hours(f.RequestedGPUHours), hours(f.GPUHours)
	f.ByUser = groups(jobs, func(j *JobResult) string { return j.User })
	f.ByClass = groups(jobs, (*JobResult).Class)
	f.ByPriority = priorities(jobs)
	f.Users = len(f.ByUser)
	f.FairnessIndex = fairnessIndex(f.ByUser)
	return f
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
	asked, taken float64 // GPU-seconds of ended jobs: over their time in the system, and held
}

// groups computes the figures by key, sorted by name.
func groups(jobs []JobResult, key func(*JobResult) string) []Group {
	byName := map[string]*tally{}
	for i := range jobs {
		name := key(&jobs[i])
		t := byName[name]
		if t == nil {
			t = &tally{Group: Group{Name: name}}
			byName[name] = t
		}
		t.add(&jobs[i])
	}
	all := make([]Group, 0, len(byName))
	for _, t := range byName {
		all = append(all, t.group())
	}
	slices.SortFunc(all, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// priorities is groups by priority, the most urgent first.
func priorities(jobs []JobResult) []Group {
	values := map[string]int{}
	all := groups(jobs, func(j *JobResult) string {
		name := strconv.Itoa(j.Priority)
		values[name] = j.Priority
		return name
	})
	slices.SortFunc(all, func(a, b Group) int { return cmp.Compare(values[b.Name], values[a.Name]) })
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
