package elastic

// minSpeedup is the speedup that a job without GPUs counts as having. By the paper it would be 0;
// then any two matrices that leave one job out would be equally good.
const minSpeedup = 0.01

// speedupOf returns a job's speedup with a row: its goodput relative to that with a fair share of
// the cluster, less the penalty of a restart.
func (e *entry) speedupOf(r row) float64 {
	gpus := r.gpus()
	if gpus == 0 {
		return 0
	}
	spread := 0
	if r.spans() > 1 {
		spread = 1
	}
	s := e.speedup[spread][gpus]
	if !r.equal(e.base) {
		s *= e.penalty
	}
	return s
}

// cost is a job's term of the sum that the search minimizes.
func (e *entry) cost(r row) float64 { return 1 / max(minSpeedup, e.speedupOf(r)) }

// fitness is the power mean, with exponent -1, of the jobs' speedups (equation 14 of the paper with
// p = -1).
func (s *state) fitness() float64 {
	if len(s.rows) == 0 {
		return 0
	}
	return float64(len(s.rows)) / s.sum
}
