package scheduler

import "time"

// A Placer that finds nothing for one job is not asked again, until GPUs become free, for others that want the same:
// their shape is known as one bit of a word, so that the queue can be searched for the first job of another shape.

// want is what makes two jobs equal for a Placer.
type want struct {
	gpus, share    int
	fewest         int // that an elastic job can run on
	gpuType, model string
	memoryBytes    int64
}

type shape struct {
	bit    uint64
	fits   bool   // whether the whole cluster, were it free, would do
	failed uint64 // the number of the last walk that found no place for it
	probe  *Job   // one that wants it
	queued int    // how many such jobs wait
}

// common is the bit of all shapes beyond the 63rd; it is never skipped.
const common = 1 << 63

func (e *Engine) shapeOf(j *Job) *shape {
	w := want{
		gpus: j.facts.GPUs, share: j.facts.Share, fewest: j.facts.GPUs,
		gpuType: j.facts.GPUType, model: j.facts.Model, memoryBytes: j.facts.GPUMemoryBytes,
	}
	if e.policies.Allocate != nil {
		w.fewest, _ = j.Bounds()
	}
	s := e.shapes[w]
	if s == nil {
		s = &shape{bit: common, probe: &Job{facts: j.facts}}
		if len(e.shapes) < 63 {
			s.bit = 1 << len(e.shapes)
			e.single = append(e.single, s)
		}
		s.fits = e.couldHold(s.probe, w.fewest)
		e.shapes[w] = s
	}
	return s
}

// couldHold reports whether the cluster has so many GPUs that suit a job, whoever uses them now.
func (e *Engine) couldHold(j *Job, fewest int) bool {
	for i := range e.nodes {
		if e.free.Suits(j, e.nodes[i].ID) {
			fewest -= e.nodes[i].GPUs
		}
		if fewest <= 0 {
			return true
		}
	}
	return false
}

// least is how many whole GPUs must be free before it is worth asking for the job's place.
func (j *Job) least() int {
	if j.facts.Share < wholeGPU {
		return 0
	}
	return j.facts.GPUs
}

// left is how much longer a job without GPUs will take by its estimate.
func (j *Job) left() time.Duration { return max(0, j.facts.Estimate-j.done) }
