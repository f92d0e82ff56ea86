package elastic

import (
	"math/rand/v2"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
)

// search returns good rows. It starts twice, from the jobs' current rows and from none, and
// improves each start by removing up to four jobs and putting them back. The number of tries is
// about effort for each job; fewer with very many nodes.
func (m *matrix) search(random *rand.Rand, effort int) []row {
	kept, fresh := m.newState(), m.newState()
	for job, e := range m.jobs {
		if kept.fits(job, e.base) {
			kept.set(job, e.base)
		}
	}
	if kept.perfect() {
		return kept.rows
	}
	all := make([]int, len(m.jobs))
	for i := range all {
		all[i] = i
	}
	fresh.grow(all)
	tries := min(effort*len(m.jobs)+100, 1+500_000/max(1, len(m.nodes)))
	best := kept
	for _, s := range []*state{kept, fresh} {
		s.improve(random, tries)
		if s.fitness() > best.fitness() {
			best = s
		}
	}
	return best.rows
}

// perfect reports whether every job has its best speedup: then there is nothing to improve.
func (s *state) perfect() bool {
	for job, e := range s.m.jobs {
		best := minSpeedup
		for _, speedups := range e.speedup {
			best = max(best, slices.Max(speedups))
		}
		if s.costs[job] > 1/best {
			return false
		}
	}
	return true
}

// improve removes jobs and puts them back, and undoes changes that do not help.
func (s *state) improve(random *rand.Rand, tries int) {
	var before [4]row
	most := min(len(before), len(s.rows))
	if most == 0 {
		return
	}
	order := make([]int, len(s.rows))
	swap := func(i, k int) { order[i], order[k] = order[k], order[i] }
	for range tries {
		for i := range order {
			order[i] = i
		}
		random.Shuffle(len(order), swap)
		out, sum := order[:1+random.IntN(most)], s.sum
		for i, job := range out {
			before[i] = append(before[i][:0], s.rows[job]...)
			s.remove(job)
		}
		if random.IntN(2) == 0 {
			s.insertRandom(out, random)
		}
		s.grow(out)
		if s.sum < sum-1e-9*sum {
			continue
		}
		for _, job := range out {
			s.remove(job)
		}
		for i, job := range out {
			if slices.Max(before[i]) > 0 {
				s.set(job, before[i])
			}
		}
		s.sum = sum // discards rounding error
	}
}

// insertRandom gives jobs without GPUs a random number of GPUs, one job after the other.
func (s *state) insertRandom(jobs []int, random *rand.Rand) {
	for _, job := range jobs {
		e := s.m.jobs[job]
		if gpus := e.fewest + random.IntN(e.most-e.fewest+1); s.place(job, gpus, s.scratch) {
			s.set(job, s.scratch)
		}
	}
}

// grow repeatedly gives the next GPUs to the job that gains most from them, while any gains.
func (s *state) grow(jobs []int) {
	for len(s.steps) < len(jobs) {
		s.steps = append(s.steps, step{from: make(row, len(s.free)), to: make(row, len(s.free))})
	}
	next := s.steps[:len(jobs)]
	for i, job := range jobs {
		s.nextStep(job, &next[i])
	}
	for {
		best := -1
		for i := range next {
			if next[i].gain > 0 && (best < 0 || next[i].gain > next[best].gain) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		job := jobs[best]
		s.remove(job)
		fits := s.fits(job, next[best].to)
		if fits {
			s.set(job, next[best].to)
		} else {
			s.set(job, next[best].from)
		}
		s.nextStep(job, &next[best])
	}
}

// step is a job's next row and its gain for each additional GPU.
type step struct {
	from, to row
	gain     float64
}

// nextStep finds the next number of GPUs that a job gains from. Speed need not grow with each GPU:
// the second node costs speed at first.
func (s *state) nextStep(job int, out *step) {
	e, before := s.m.jobs[job], s.costs[job]
	copy(out.from, s.rows[job])
	clear(out.to)
	out.gain = 0
	gpus := out.from.gpus()
	s.remove(job)
	for n := max(e.fewest, gpus+1); n <= e.most; n++ {
		if !s.place(job, n, s.scratch) {
			break
		}
		if gain := (before - e.cost(s.scratch)) / float64(n-gpus); gain > out.gain {
			out.gain = gain
			copy(out.to, s.scratch)
		}
	}
	if gpus > 0 {
		s.set(job, out.from)
	}
}

// unused returns the GPUs that remain when all jobs with an unchanged row keep their GPUs.
func unused(jobs []*scheduler.Job, m *matrix, rows []row) *gpuPicker {
	h := newGPUPicker(m.gpus)
	for i, j := range jobs {
		if rows[i].equal(m.jobs[i].base) {
			for _, gpu := range j.Placement() {
				h.take(gpu)
			}
		}
	}
	return h
}
