package order

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestThemisRho has 16 GPUs that 8 jobs share: 2 for each.
func TestThemisRho(t *testing.T) {
	order := Themis{Lease: 20 * time.Minute, Contention: 8}
	job := cluster.Job{GPUs: 4, Estimate: seconds(100), Submit: seconds(50)}
	small := job
	small.GPUs = 1
	on := cluster.Placement{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}}
	for _, c := range []struct {
		made schedulertest.Job
		want scheduler.Rank
	}{
		// 300 s since submission, 60 s to go: 360 s instead of 200 s, for the work of four GPUs on two.
		{
			schedulertest.Job{Job: job, Phase: scheduler.Waiting, Done: seconds(40)},
			scheduler.Rank{Value: -1.8, Until: seconds(1200)},
		},
		{
			schedulertest.Job{Job: small, Phase: scheduler.Waiting, Done: seconds(40)},
			scheduler.Rank{Value: -3.6, Until: seconds(1200)},
		},
		// 300 s since submission, 40 s done before and 20 s in this run.
		{
			schedulertest.Job{Job: job, Phase: scheduler.Running, Done: seconds(40), Since: seconds(330), On: on},
			scheduler.Rank{Value: -1.7},
		},
		{
			schedulertest.Job{Job: job, Phase: scheduler.Running, Done: seconds(40), Since: seconds(330), On: on, Speed: 0.5},
			scheduler.Rank{Value: -1.75, Growth: -0.0025},
		},
	} {
		v := schedulertest.NewView(seconds(350), []cluster.Node{{GPUs: 16}}, c.made)
		got := order.Rank(v, v.Job(0))
		if math.Abs(got.Value-c.want.Value) > 1e-12 || math.Abs(got.Growth-c.want.Growth) > 1e-12 ||
			got.Until != c.want.Until ||
			got.Tier != 0 {
			t.Errorf("%+v: %+v, want %+v", c.made, got, c.want)
		}
	}
}

// TestThemisServesTheWorst: with a lease of one step, no waiting job would end later, relative to
// its time alone, than a running one.
func TestThemisServesTheWorst(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 50 {
		y := newToy(Themis{Lease: time.Second}, 1, some(r, 6, 10, 9, 1))
		ran := make([]int, len(y.jobs))
		y.watch = func(now time.Duration, _ scheduler.View, running []*toyJob) {
			if len(running) == 0 {
				return
			}
			rho := func(j *toyJob) float64 {
				return (now - j.Submit + j.Length - seconds(ran[j.ID])).Seconds() / j.Length.Seconds()
			}
			for _, j := range y.jobs {
				if j.Phase == scheduler.Waiting && j.Submit <= now && rho(j) > rho(running[0])+1e-9 {
					t.Fatalf(
						"at %v job %d of rho %v waits, job %d of rho %v runs",
						now,
						j.ID,
						rho(j),
						running[0].ID,
						rho(running[0]),
					)
				}
			}
			ran[running[0].ID]++
		}
		y.play(t)
	}
}

// fill gives GPUs to the jobs of the first group, one job at a time, until the first group's next
// job does not fit. It returns which groups got a GPU.
func fill(t *testing.T, order scheduler.Grouper, node cluster.Node, kinds map[string]cluster.Job) (got []string) {
	t.Helper()
	var jobs []schedulertest.Job
	left := cluster.WholeGPU * node.GPUs
	for {
		v := schedulertest.NewView(0, []cluster.Node{node}, jobs...)
		first, least := "", scheduler.Rank{Tier: math.MaxInt}
		for _, user := range slices.Sorted(func(yield func(string) bool) {
			for user := range kinds {
				if !yield(user) {
					return
				}
			}
		}) {
			if rank := order.RankGroup(v, user, scheduler.Amount{}); rank.Compare(least) < 0 {
				first, least = user, rank
			}
		}
		job := kinds[first]
		job.ID, job.User = cluster.JobID(len(jobs)), first
		if left -= job.GPUs * job.Share; left < 0 {
			return got
		}
		made := schedulertest.Job{Job: job, Phase: scheduler.Running}
		for i := range job.GPUs {
			made.On = append(made.On, cluster.GPU{Index: int32(i)})
		}
		jobs, got = append(jobs, made), append(got, first)
	}
}

// TestDRFPaper is the example of the paper's section 4.1: 9 CPUs and 18 GB, tasks of 1 CPU and 4 GB
// and of 3 CPUs and 1 GB. Here the CPUs are ninths of one GPU. A gets three tasks and B two, and
// both end with two thirds of their dominant resource.
func TestDRFPaper(t *testing.T) {
	const gib, ninth = 1 << 30, 111
	node := cluster.Node{GPUs: 1, GPUMemoryBytes: 18 * gib}
	got := fill(t, DRF{}, node, map[string]cluster.Job{
		"a": {GPUs: 1, Share: 1 * ninth, GPUMemoryBytes: 4 * gib},
		"b": {GPUs: 1, Share: 3 * ninth, GPUMemoryBytes: 1 * gib},
	})
	// Shares after each: a 2/9; b 1/3; a 4/9; b 2/3; a 2/3. Then the GPU is used up.
	if !slices.Equal(got, []string{"a", "b", "a", "b", "a"}) {
		t.Errorf("tasks go to %v", got)
	}
}

// TestDRFOfOneResource: with one resource DRF is weighted max-min fairness.
func TestDRFOfOneResource(t *testing.T) {
	kinds := map[string]cluster.Job{
		"a": {GPUs: 1, Share: 1000},
		"b": {GPUs: 1, Share: 1000},
		"c": {GPUs: 1, Share: 1000},
	}
	count := map[string]int{}
	for _, user := range fill(t, DRF{Weights: map[string]float64{"b": 3, "c": 2}}, cluster.Node{GPUs: 12}, kinds) {
		count[user]++
	}
	if count["a"] != 2 || count["b"] != 6 || count["c"] != 4 {
		t.Errorf("twelve GPUs go by weights 1:3:2 to %v", count)
	}
}

// holds adds a user's running job with a number of GPUs, from the first free one on.
func holds(jobs []schedulertest.Job, user string, gpus int) []schedulertest.Job {
	at := 0
	for _, j := range jobs {
		at += len(j.On)
	}
	made := schedulertest.Job{
		Job:   cluster.Job{ID: cluster.JobID(len(jobs)), User: user, GPUs: gpus},
		Phase: scheduler.Running,
	}
	for i := range gpus {
		made.On = append(made.On, cluster.GPU{Index: int32(at + i)})
	}
	return append(jobs, made)
}

// TestQuota has a cluster of 16: organisation x owns 8, of which team a 2 and team b 4; y owns 8,
// without teams; z owns nothing.
func TestQuota(t *testing.T) {
	order := Quota{GPUs: map[string]float64{"x": 8, "x/a": 2, "x/b": 4, "y": 8}}
	for _, c := range []struct {
		held map[string]int
		user string
		more float64
		want scheduler.Rank
	}{
		{nil, "x/a", 0, scheduler.Rank{Tier: entitled}},
		{map[string]int{"x/a": 1}, "x/a", 1, scheduler.Rank{Tier: entitled, Value: 2./2 + 2./8}},
		{map[string]int{"x/a": 2}, "x/a", 1, scheduler.Rank{Tier: borrowsAtHome, Value: 3./2 + 3./8}},
		{map[string]int{"x/a": 2, "x/b": 6}, "x/a", 1, scheduler.Rank{Tier: borrows, Value: 3./2 + 9./8}},
		// What b has borrowed from its organisation does not reduce a's own quota.
		{map[string]int{"x/a": 1, "x/b": 9}, "x/a", 1, scheduler.Rank{Tier: entitled, Value: 2./2 + 11./8}},
		{map[string]int{"x/a": 1, "x/b": 9}, "x/b", 0, scheduler.Rank{Tier: borrows, Value: 9./4 + 10./8}},
		{map[string]int{"y": 7}, "y", 1, scheduler.Rank{Tier: entitled, Value: 1}},
		{map[string]int{"y/u": 4, "y/v": 4}, "y/u", 1, scheduler.Rank{Tier: borrows, Value: 9. / 8}},
		{map[string]int{"z": 3}, "z", 0, scheduler.Rank{Tier: ownsNothing, Value: 3}},
		{map[string]int{"z": 3}, "z", -2, scheduler.Rank{Tier: ownsNothing, Value: 1}},
	} {
		var jobs []schedulertest.Job
		for _, user := range []string{"x/a", "x/b", "y", "y/u", "y/v", "z"} {
			if c.held[user] > 0 {
				jobs = holds(jobs, user, c.held[user])
			}
		}
		v := schedulertest.NewView(0, []cluster.Node{{GPUs: 16}}, jobs...)
		if got := order.RankGroup(v, c.user, scheduler.Amount{GPUs: c.more}); got != c.want {
			t.Errorf("%v: %s with %v more: %+v, want %+v", c.held, c.user, c.more, got, c.want)
		}
	}
}

// TestQuotaKeepsOwnJobs: within a user, a running job is not preempted for an earlier one, unless
// the inner order preempts.
func TestQuotaKeepsOwnJobs(t *testing.T) {
	waits := schedulertest.Job{Job: cluster.Job{ID: 1, User: "x", GPUs: 2, Priority: 5}, Phase: scheduler.Waiting}
	v := schedulertest.NewView(0, []cluster.Node{{GPUs: 2}}, holds(nil, "x", 1)[0], waits)
	for _, c := range []struct {
		order Quota
		makes bool
	}{{Quota{}, false}, {Quota{Within: Priority{}}, false}, {Quota{Within: Priority{Preemptive: true}}, true}} {
		if got := c.order.Rank(v, v.Job(1)).Compare(c.order.Rank(v, v.Job(0))) < 0; got != c.makes {
			t.Errorf("%+v: the waiting job goes before the running one: %v", c.order, got)
		}
	}
}

// TestAgingEndsStarvation has an endless stream of short jobs, and a long one.
func TestAgingEndsStarvation(t *testing.T) {
	jobs := []cluster.Job{{Length: seconds(40)}}
	for at := range 60 {
		jobs = append(jobs, cluster.Job{Submit: seconds(2 * at), Length: seconds(2)})
	}
	for _, of := range []scheduler.Orderer{SJF{}, SRTF{}, SRSF{}} {
		if end := newToy(of, 1, jobs).play(t).jobs[0].end; end != seconds(160) {
			t.Errorf("%T alone ends the long job at %v", of, end)
		}
		aged, err := Aging(of, seconds(20))
		if err != nil {
			t.Fatal(err)
		}
		longest := time.Duration(0)
		y := newToy(aged, 1, jobs)
		y.watch = func(now time.Duration, v scheduler.View, _ []*toyJob) {
			if long := v.(*schedulertest.View).Job(0); long != nil && long.Phase() == scheduler.Waiting {
				longest = max(longest, long.Waited(now))
			}
		}
		y.play(t)
		if longest > seconds(22) {
			t.Errorf("%T with aging lets the long job wait for %v", of, longest)
		}
	}
	if _, err := Aging(DRF{}, seconds(1)); !errors.Is(err, ErrGroups) {
		t.Errorf("aging of groups: %v", err)
	}
}

func TestNames(t *testing.T) {
	want := []string{
		"dlas",
		"dlas-gpu",
		"drf",
		"fifo",
		"gittins",
		"gittins2d",
		"las",
		"las2d",
		"priority",
		"quota",
		"sjf",
		"srsf",
		"srtf",
		"themis",
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("there are %v", got)
	}
	for _, c := range []struct {
		name string
		p    Parameters
		want error
	}{
		{"lass", Parameters{}, ErrUnknown},
		{"dlas", Parameters{Limits: []time.Duration{seconds(2), seconds(2)}}, ErrParameter},
		{"dlas", Parameters{Promote: math.NaN()}, ErrParameter},
		{"gittins", Parameters{Lengths: []time.Duration{0}}, ErrParameter},
		{"quota", Parameters{}, ErrParameter},
		{"quota", Parameters{Quotas: map[string]float64{"x": -1}}, ErrParameter},
		{"drf", Parameters{Weights: map[string]float64{"x": 0}}, ErrParameter},
		{"themis", Parameters{Lease: -1}, ErrParameter},
		{"las", Parameters{Aging: -1}, ErrParameter},
		{"drf", Parameters{Aging: 1}, ErrGroups},
		{"las", Parameters{Aging: 1}, nil},
	} {
		if _, err := ByName(c.name, c.p); !errors.Is(err, c.want) {
			t.Errorf("%s with %+v: %v, want %v", c.name, c.p, err, c.want)
		}
	}
}
