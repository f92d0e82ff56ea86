package elastic

import "slices"

// row is how many GPUs a job has on each node.
type row []int

// gpus returns the GPUs of a job on all nodes.
func (r row) gpus() int {
	n := 0
	for _, gpus := range r {
		n += gpus
	}
	return n
}

// spans returns the number of nodes of a row.
func (r row) spans() int {
	n := 0
	for _, gpus := range r {
		if gpus > 0 {
			n++
		}
	}
	return n
}

func (r row) equal(other row) bool { return slices.Equal(r, other) }

// matrix is what Pollux decides: a row for each job. The constraints (those to which the paper's
// implementation repairs its candidates) are:
//
//   - no node gives more GPUs than it has;
//   - at most one multi-node job runs on a node, so that two do not share its network;
//   - no user exceeds its cap;
//   - a job has no GPUs, or between its fewest and most, on at most 16 nodes that it can use.
type matrix struct {
	nodes []int    // GPUs
	gpus  []uint64 // the same, a bit for each
	jobs  []*entry
	caps  budgets
}

// entry is a job.
type entry struct {
	fewest, most int
	base         row // its current row
	barred       []bool
	bounds       []int        // indices of the caps that limit it
	share        int          // of each GPU
	penalty      float64      // factor on a row other than base
	speedup      [2][]float64 // on one node and on several, by GPUs
}

// usable reports whether the job can use a node.
func (e *entry) usable(node int) bool { return e.barred == nil || !e.barred[node] }

// state is an assignment of rows.
type state struct {
	m        *matrix
	rows     []row
	free     []int // GPUs, by node
	spanning []int // the multi-node job on a node, or -1
	left     budgets
	costs    []float64
	sum      float64 // of the costs

	// Scratch memory of the search.
	scratch row
	steps   []step
}

// newState returns a state in which no job has GPUs.
func (m *matrix) newState() *state {
	s := &state{
		m:       m,
		rows:    make([]row, len(m.jobs)),
		free:    slices.Clone(m.nodes),
		costs:   make([]float64, len(m.jobs)),
		scratch: make(row, len(m.nodes)),
	}
	s.spanning, s.left = slices.Repeat([]int{-1}, len(m.nodes)), slices.Clone(m.caps)
	for i := range s.rows {
		s.rows[i] = make(row, len(m.nodes))
		s.costs[i] = m.jobs[i].cost(s.rows[i])
		s.sum += s.costs[i]
	}
	return s
}

// fits reports whether a row is allowed for a job that has no GPUs.
func (s *state) fits(job int, r row) bool {
	e, gpus, spans := s.m.jobs[job], r.gpus(), r.spans()
	if gpus < e.fewest || gpus > e.most || spans > polluxNodes || !s.left.has(e.bounds, gpus*e.share) {
		return false
	}
	for node, n := range r {
		if n > 0 && (n > s.free[node] || !e.usable(node) || (spans > 1 && s.spanning[node] >= 0)) {
			return false
		}
	}
	return true
}

// set assigns a row that fits to a job that has no GPUs.
func (s *state) set(job int, r row) {
	wide := r.spans() > 1
	for node, n := range r {
		s.free[node] -= n
		if wide && n > 0 {
			s.spanning[node] = job
		}
	}
	e := s.m.jobs[job]
	s.left.spend(e.bounds, r.gpus()*e.share)
	copy(s.rows[job], r)
	s.score(job)
}

// remove takes all GPUs from a job.
func (s *state) remove(job int) {
	e := s.m.jobs[job]
	s.left.spend(e.bounds, -s.rows[job].gpus()*e.share)
	for node, n := range s.rows[job] {
		s.free[node] += n
		s.rows[job][node] = 0
		if s.spanning[node] == job {
			s.spanning[node] = -1
		}
	}
	s.score(job)
}

// score updates a job's cost.
func (s *state) score(job int) {
	s.sum -= s.costs[job]
	s.costs[job] = s.m.jobs[job].cost(s.rows[job])
	s.sum += s.costs[job]
}

// place finds a row with so many GPUs for a job that has none: its current row if it has as many;
// else on the one node where the fewest remain free; else on the fewest nodes. The result is in r.
func (s *state) place(job, gpus int, r row) bool {
	e := s.m.jobs[job]
	if e.base.gpus() == gpus && s.fits(job, e.base) {
		copy(r, e.base)
		return true
	}
	clear(r)
	if !s.left.has(e.bounds, gpus*e.share) {
		return false
	}
	best := -1
	for node, free := range s.free {
		if free >= gpus && e.usable(node) && (best < 0 || free < s.free[best]) {
			best = node
		}
	}
	if best >= 0 {
		r[best] = gpus
		return true
	}
	return s.spreadOver(job, gpus, r)
}

// spreadOver spreads the GPUs over several nodes, those with the most free GPUs first.
func (s *state) spreadOver(job, gpus int, r row) bool {
	e := s.m.jobs[job]
	for range polluxNodes {
		best := -1
		for node, free := range s.free {
			if r[node] == 0 && free > 0 && s.spanning[node] < 0 && e.usable(node) && (best < 0 || free > s.free[best]) {
				best = node
			}
		}
		if best < 0 {
			return false
		}
		r[best] = min(gpus, s.free[best])
		if gpus -= r[best]; gpus == 0 {
			return true
		}
	}
	return false
}
