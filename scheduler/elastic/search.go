package elastic

import (
	"math/rand/v2"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
)

// search finds good rows. It begins twice, with what the jobs have and with nothing, and betters each by taking up to four jobs out and putting them
// back. It tries effort times for each job and some more, less often on very many nodes.
func (m *matrix) search(random *rand.Rand, effort int) []row {
	kept, fresh := m.empty(), m.empty()
	for job, e := range m.jobs {
		if kept.fits(job, e.base) {
			kept.set(job, e.base)
		}
	}
	all := make([]int, len(m.jobs))
	for i := range all {
		all[i] = i
	}
	fresh.grow(all)
	tries := min(effort*len(m.jobs)+100, 1+500_000/max(1, len(m.nodes)))
	best := kept
	for _, s := range []*state{kept, fresh} {
		s.better(random, tries)
		if s.fitness() > best.fitness() {
			best = s
		}
	}
	return best.rows
}

// better takes jobs out and puts them back, and undoes what does not help.
func (s *state) better(random *rand.Rand, tries int) {
	most := min(4, len(s.rows))
	for range tries {
		if most == 0 {
			return
		}
		out := random.Perm(len(s.rows))[:1+random.IntN(most)]
		before, sum := make([]row, len(out)), s.sum
		for i, job := range out {
			before[i] = slices.Clone(s.rows[job])
			s.clear(job)
		}
		if random.IntN(2) == 0 {
			s.insert(out, random)
		}
		s.grow(out)
		if s.sum < sum-1e-9*sum {
			continue
		}
		for _, job := range out {
			s.clear(job)
		}
		for i, job := range out {
			if slices.Max(before[i]) > 0 {
				s.set(job, before[i])
			}
		}
		s.sum = sum // without what rounding added
	}
}

// insert gives jobs that have nothing any number of GPUs, one job after the other.
func (s *state) insert(jobs []int, random *rand.Rand) {
	r := make(row, len(s.free))
	for _, job := range jobs {
		e := s.m.jobs[job]
		if gpus := e.fewest + random.IntN(e.most-e.fewest+1); s.place(job, gpus, r) {
			s.set(job, r)
		}
	}
}

// grow gives jobs the next GPU, again and again, each time the one that it helps most, as long as it helps.
func (s *state) grow(jobs []int) {
	next := make([]step, len(jobs))
	for i, job := range jobs {
		next[i] = s.step(job)
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
		s.clear(job)
		fits := s.fits(job, next[best].to)
		if fits {
			s.set(job, next[best].to)
		} else {
			s.set(job, next[best].from)
		}
		next[best] = s.step(job)
	}
}

// step is a job's next row, and what each GPU more gains.
type step struct {
	from, to row
	gain     float64
}

// step looks for the next number of GPUs that a job gains from: speed need not grow with each GPU, the second node costs at first.
func (s *state) step(job int) step {
	e := s.m.jobs[job]
	has, before := slices.Clone(s.rows[job]), s.misfit[job]
	gpus := has.gpus()
	out := step{from: has, to: make(row, len(has))}
	s.clear(job)
	try := make(row, len(has))
	for n := max(e.fewest, gpus+1); n <= e.most; n++ {
		if !s.place(job, n, try) {
			break
		}
		if gain := (before - e.misfit(try)) / float64(n-gpus); gain > out.gain {
			out.gain = gain
			copy(out.to, try)
		}
	}
	if gpus > 0 {
		s.set(job, has)
	}
	return out
}

// unused are the GPUs that are left when those jobs that keep their row keep their GPUs.
func unused(jobs []*scheduler.Job, m *matrix, rows []row) *hands {
	h := newHands(len(m.nodes))
	for i, j := range jobs {
		if rows[i].equal(m.jobs[i].base) {
			for _, gpu := range j.Placement() {
				h.hold(gpu)
			}
		}
	}
	return h
}
