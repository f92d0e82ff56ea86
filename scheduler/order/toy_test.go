package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// toy is one node in steps of a second: in each step all jobs are ranked again and every job that
// fits runs. It shares nothing with the engine.
type toy struct {
	order scheduler.Orderer
	gpus  int
	jobs  []*toyJob

	// watch is called with the running jobs of each step.
	watch func(now time.Duration, v scheduler.View, running []*toyJob)
}

type toyJob struct {
	schedulertest.Job
	end time.Duration
}

func newToy(order scheduler.Orderer, gpus int, jobs []cluster.Job) *toy {
	y := &toy{order: order, gpus: gpus}
	for i, job := range jobs {
		job.ID, job.GPUs = cluster.JobID(i), max(1, job.GPUs)
		if job.Estimate == 0 {
			job.Estimate = job.Length
		}
		y.jobs = append(y.jobs, &toyJob{Job: schedulertest.Job{Job: job, Phase: scheduler.Waiting, WaitingSince: job.Submit}})
	}
	return y
}

// play runs all jobs to their ends.
func (y *toy) play(t *testing.T) *toy {
	t.Helper()
	for now := time.Duration(0); ; now += time.Second {
		var present []*toyJob
		left := 0
		for _, j := range y.jobs {
			if j.Phase == scheduler.Ended {
				continue
			}
			left++
			if j.Submit <= now {
				present = append(present, j)
			}
		}
		if left == 0 {
			return y
		}
		if now > time.Hour {
			t.Fatalf("after %v %d jobs are left", now, left)
		}
		y.step(now, present)
	}
}

func (y *toy) view(now time.Duration, present []*toyJob) *schedulertest.View {
	var states []schedulertest.Job
	for _, j := range present {
		states = append(states, j.Job)
	}
	return schedulertest.NewView(now, []cluster.Node{{GPUs: y.gpus}}, states...)
}

func (y *toy) step(now time.Duration, present []*toyJob) {
	v := y.view(now, present)
	ranks := map[*toyJob]scheduler.Rank{}
	for _, j := range present {
		ranks[j] = y.order.Rank(v, v.Job(j.ID))
	}
	slices.SortFunc(present, func(a, b *toyJob) int {
		if stays := cmp.Compare(b.Phase, a.Phase); !preempts(y.order) && stays != 0 {
			return stays
		}
		return cmp.Or(ranks[a].Compare(ranks[b]), cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
	free, running := y.gpus, []*toyJob(nil)
	for _, j := range present {
		if j.GPUs > free {
			j.stop(now)
			continue
		}
		free -= j.GPUs
		j.start(now, free)
		running = append(running, j)
	}
	if y.watch != nil {
		y.watch(now, y.view(now, present), running)
	}
	for _, j := range running {
		if j.Done+now+time.Second-j.Since == j.Length {
			j.end, j.Phase = now+time.Second, scheduler.Ended
		}
	}
}

func (j *toyJob) start(now time.Duration, at int) {
	j.On = nil
	for i := range j.GPUs {
		j.On = append(j.On, cluster.GPU{Index: int32(at + i)})
	}
	if j.Phase == scheduler.Running {
		return
	}
	if j.Runs == 0 {
		j.First = now
	}
	j.Phase, j.Since, j.Runs = scheduler.Running, now, j.Runs+1
}

func (j *toyJob) stop(now time.Duration) {
	if j.Phase != scheduler.Running {
		return
	}
	ran := now - j.Since
	j.Attained, j.Done, j.Service = j.Attained+ran, j.Done+ran, j.Service+ran*time.Duration(j.GPUs)
	j.Phase, j.On, j.WaitingSince = scheduler.Waiting, nil, now
}

// total is the sum of the jobs' completion times.
func (y *toy) total() (sum time.Duration) {
	for _, j := range y.jobs {
		sum += j.end - j.Submit
	}
	return sum
}

func (y *toy) ends() (ends []int) {
	for _, j := range y.jobs {
		ends = append(ends, int(j.end/time.Second))
	}
	return ends
}

// some returns random jobs: arriving within so many seconds, of bounded length and GPUs.
func some(r *rand.Rand, n, within, longest, widest int) []cluster.Job {
	jobs := make([]cluster.Job, n)
	for i := range jobs {
		jobs[i] = cluster.Job{
			Submit: time.Duration(r.IntN(within+1)) * time.Second,
			Length: time.Duration(1+r.IntN(longest)) * time.Second,
			GPUs:   1 + r.IntN(widest),
		}
	}
	return jobs
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
