package victims

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Worth preempts another policy's victims only if that costs less GPU-time than it saves: the GPUs
// that the waiting job asks for, times how long it would wait until as many become free without
// preemption, by the estimates. An overdue job is assumed to run as long again as it has: the
// longer a job has lasted, the longer it lasts.
type Worth struct {
	Of    scheduler.Preemptor
	Costs scheduler.Costs
}

// Choose returns the other policy's victims, or none.
func (w Worth) Choose(v scheduler.View, need scheduler.Demand, candidates iter.Seq[*scheduler.Job]) []*scheduler.Job {
	victims := w.Of.Choose(v, need, candidates)
	cost := 0.0
	for _, j := range victims {
		cost += loss(w.Costs, j, v.Now())
	}
	wait, ends := untilFree(v, need)
	gain := wait.Seconds() * float64(need.Job.GPUs()*need.Job.Share()) / cluster.WholeGPU
	if ends && gain <= cost {
		return nil
	}
	return victims
}

// untilFree returns how long it takes until so many more GPUs that suit a job become free without
// preemption; ok is false if they never do.
func untilFree(v scheduler.View, need scheduler.Demand) (wait time.Duration, ok bool) {
	type end struct {
		in   time.Duration
		gpus int
	}
	var ends []end
	freed := 0 // by jobs whose estimates still hold: they come in order
	for j := range v.Running() {
		e := end{in: j.Due() - v.Now()}
		for _, gpu := range j.Placement() {
			if v.Free().Suits(need.Job, gpu.Node) && v.Free().Usable(gpu) {
				e.gpus++
			}
		}
		if e.in <= 0 {
			e.in = max(1, j.Attained(v.Now()))
		} else {
			freed += e.gpus
		}
		ends = append(ends, e)
		if freed >= need.GPUs {
			break
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.in, b.in) })
	for _, e := range ends {
		if need.GPUs -= e.gpus; need.GPUs <= 0 {
			return e.in, true
		}
	}
	return 0, false
}
