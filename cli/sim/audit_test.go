package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// books recomputes from the record of runs how much work each job got under the common model. It
// shares no code with the engine or with the tables of speeds, only the built-in numbers.
type books struct {
	t          *testing.T
	jobs       map[cluster.JobID]cluster.Job
	nodes      []cluster.Node
	types      map[string]float64 // speeds of GPU types by the jobs' model; nil: all alike
	save, load time.Duration

	worked map[cluster.JobID]float64       // ns on the requested GPUs
	slack  map[cluster.JobID]float64       // ns that rounding may have cost
	ran    map[cluster.JobID]bool          // so that the next run loads
	saved  map[cluster.JobID]time.Duration // when the job's checkpoint is complete
	saves  map[cluster.GPU][]checkpoint    // of jobs that were on the GPU
}

// checkpoint is the time in which a GPU is being saved.
type checkpoint struct{ from, to time.Duration }

// audit returns the jobs whose work is not what they asked for.
func (b *books) audit(r *sim.Result) (wrong []cluster.JobID) {
	b.worked, b.slack, b.ran = map[cluster.JobID]float64{}, map[cluster.JobID]float64{}, map[cluster.JobID]bool{}
	b.saved, b.saves = map[cluster.JobID]time.Duration{}, map[cluster.GPU][]checkpoint{}
	b.exclusive(r.Runs)
	ends := map[cluster.JobID]time.Duration{}
	for i := range r.Jobs.All() {
		if r.Jobs.At(i).Outcome != sim.Done {
			b.t.Fatalf("job %d did not end", r.Jobs.At(i).ID)
		}
		ends[r.Jobs.At(i).ID] = r.Jobs.At(i).Finish
	}
	last := map[cluster.JobID]time.Duration{}
	for i := range r.Runs {
		run := &r.Runs[i]
		last[run.Job] = run.To
		b.book(run, ends[run.Job])
	}
	for id, j := range b.jobs {
		if math.Abs(b.worked[id]-float64(j.Length)) > b.slack[id] || last[id] != ends[id] {
			wrong = append(wrong, id)
		}
	}
	return wrong
}

// book adds the work of a run.
func (b *books) book(run *sim.Run, end time.Duration) {
	j := b.jobs[run.Job]
	b.fits(run, &j)
	from := max(run.From, b.saved[run.Job])
	for _, gpu := range run.On {
		for _, save := range b.saves[gpu] {
			if save.from <= run.From {
				from = max(from, save.to)
			}
		}
	}
	if b.ran[run.Job] {
		from += b.load
	}
	b.ran[run.Job] = true
	if run.Preempted && run.To >= from {
		b.saved[run.Job] = run.To + b.save
		for _, gpu := range run.On {
			b.saves[gpu] = append(b.saves[gpu], checkpoint{run.To, run.To + b.save})
		}
	}
	if !run.Preempted && run.To != end {
		return // it failed, or its node did: all work since its checkpoint is lost
	}
	if run.To > from {
		speed := b.speed(&j, run.On)
		b.worked[run.Job] += float64(run.To-from) * speed
		b.slack[run.Job] += 3*speed + 2 + 1e-12*float64(j.Length)
	}
}

// fits checks the number and the type of the GPUs of a run.
func (b *books) fits(run *sim.Run, j *cluster.Job) {
	fewest, most := j.GPUs, j.GPUs
	if j.MaxGPUs > 0 {
		fewest, most = j.MinGPUs, j.MaxGPUs
	}
	if n := len(run.On); n < fewest || n > most {
		b.t.Fatalf("job %d has %d GPUs, want %d to %d", j.ID, n, fewest, most)
	}
	for _, gpu := range run.On {
		if node := b.nodes[gpu.Node]; j.GPUType != "" && node.GPUType != j.GPUType {
			b.t.Fatalf("job %d has a GPU of type %s, want %s", j.ID, node.GPUType, j.GPUType)
		}
	}
}

// exclusive checks that no GPU is given away beyond its whole at any time.
func (b *books) exclusive(runs []sim.Run) {
	type change struct {
		at    time.Duration
		share int
	}
	changes := map[cluster.GPU][]change{}
	for i := range runs {
		share := max(1, b.jobs[runs[i].Job].Share)
		for _, gpu := range runs[i].On {
			changes[gpu] = append(changes[gpu], change{runs[i].From, share}, change{runs[i].To, -share})
		}
	}
	for gpu, all := range changes {
		slices.SortFunc(all, func(a, b change) int {
			if a.at != b.at {
				return int(min(1, max(-1, a.at-b.at)))
			}
			return a.share - b.share
		})
		held := 0
		for _, c := range all {
			if held += c.share; held > cluster.WholeGPU {
				b.t.Fatalf("GPU %v is given to jobs twice at %v", gpu, c.at)
			}
		}
	}
}

// speed returns how fast a job is on GPUs, relative to those that it asks for.
func (b *books) speed(j *cluster.Job, on cluster.Placement) float64 {
	speed := 1.0
	if len(on) != j.GPUs {
		speed = b.rate(j.Model, len(on)) / b.rate(j.Model, j.GPUs)
	}
	if b.types == nil {
		return speed
	}
	slowest := math.Inf(1)
	for _, gpu := range on {
		slowest = min(slowest, b.types[b.nodes[gpu.Node].GPUType])
	}
	if j.GPUType != "" {
		slowest /= b.types[j.GPUType]
	}
	return speed * slowest
}

// rate is samples per second on one node, by the formulas of Pollux's paper (§3.2): computing and
// exchanging gradients overlap by gamma; batches that do not fit are computed in pieces.
func (b *books) rate(model string, gpus int) float64 {
	m := throughput.NewTable().Model(model)
	n, s := float64(gpus), m.Step
	pieces := math.Max(1, math.Ceil(m.Batch/n/m.Local-1e-9))
	computes := s.AlphaC + s.BetaC*m.Batch/n/pieces
	exchanges := 0.0
	if gpus > 1 {
		exchanges = s.AlphaR + s.BetaR*(n-2)
	}
	last := math.Pow(math.Pow(computes, s.Gamma)+math.Pow(exchanges, s.Gamma), 1/s.Gamma)
	return m.Batch / ((pieces-1)*computes + last)
}
