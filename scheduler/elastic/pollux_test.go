package elastic

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

func TestRestartPenaltyByHand(t *testing.T) {
	const delta = 30 * time.Second
	near(t, "never restarted", restart(570*time.Second, 0, delta), 570.0/600)
	near(t, "twice", restart(570*time.Second, 2, delta), 510.0/600)
	near(t, "more often than it lived", restart(10*time.Second, 9, delta), 0)
	near(t, "just born", restart(0, 0, 0), 0)
}

// filled returns a state with given rows.
func (m *matrix) filled(rows ...row) *state {
	s := m.newState()
	for job, r := range rows {
		if r.gpus() > 0 {
			s.set(job, r)
		}
	}
	return s
}

func TestFitnessByHand(t *testing.T) {
	linear := []float64{0, 1, 2, 3, 4}
	slower := []float64{0, 0.5, 1, 1.5, 2}
	job := func(base row, penalty float64) *entry {
		return &entry{fewest: 1, most: 4, base: base, penalty: penalty, speedup: [2][]float64{linear, slower}}
	}
	m := &matrix{nodes: []int{2, 2}, jobs: []*entry{job(row{1, 0}, 0.5), job(row{0, 0}, 1)}}
	// Harmonic means of the two speedups.
	near(t, "as it is, and one GPU", m.filled(row{1, 0}, row{0, 1}).fitness(), 1)
	near(t, "as it is, and two", m.filled(row{1, 0}, row{0, 2}).fitness(), 2/(1+1.0/2))
	near(t, "moved", m.filled(row{0, 1}, row{2, 0}).fitness(), 2/(1/0.5+1.0/2))
	near(t, "on two nodes", m.filled(row{1, 0}, row{1, 1}).fitness(), 2/(1+1/1.0))
	near(t, "nothing for one", m.filled(row{1, 0}, row{0, 0}).fitness(), 2/(1+1/minSpeedup))
	near(t, "nothing for both", m.newState().fitness(), minSpeedup)
}

// unlawful returns what is wrong with rows by the rules, written independently.
func unlawful(m *matrix, rows []row) string {
	for node, gpus := range m.nodes {
		wide := 0
		for job, r := range rows {
			if gpus -= r[node]; r[node] > 0 && r.spans() > 1 {
				wide++
			}
			if r[node] > 0 && !m.jobs[job].usable(node) {
				return "a node that the job cannot use"
			}
		}
		if gpus < 0 {
			return "more GPUs than the node has"
		}
		if wide > 1 {
			return "two jobs of several nodes on one node"
		}
	}
	for job, r := range rows {
		if n := r.gpus(); n > 0 && (n < m.jobs[job].fewest || n > m.jobs[job].most) {
			return "outside of the job's bounds"
		}
		if r.spans() > polluxNodes {
			return "on too many nodes"
		}
	}
	return ""
}

// exhaust returns the best fitness of all allowed matrices.
func exhaust(m *matrix) float64 {
	best, s := 0.0, m.newState()
	var fill func(job, node int, r row)
	fill = func(job, node int, r row) {
		switch {
		case job == len(m.jobs):
			best = max(best, s.fitness())
		case node == len(m.nodes):
			if r.gpus() == 0 {
				fill(job+1, 0, make(row, len(m.nodes)))
			} else if s.fits(job, r) {
				s.set(job, r)
				fill(job+1, 0, make(row, len(m.nodes)))
				s.remove(job)
			}
		default:
			for r[node] = 0; r[node] <= s.free[node]; r[node]++ {
				fill(job, node+1, r)
			}
			r[node] = 0
		}
	}
	fill(0, 0, make(row, len(m.nodes)))
	return best
}

// small returns a random problem that can be exhausted.
func small(random *rand.Rand, nodes, gpus, jobs int) *matrix {
	m := &matrix{}
	table := throughput.NewTable()
	names := table.Models()
	for range 1 + random.IntN(nodes) {
		m.nodes = append(m.nodes, 1+random.IntN(gpus))
	}
	free := slices.Clone(m.nodes)
	for range 1 + random.IntN(jobs) {
		e := &entry{fewest: 1 + random.IntN(2), base: make(row, len(m.nodes)), penalty: 1}
		e.most = e.fewest + random.IntN(6)
		if node := random.IntN(len(m.nodes)); random.IntN(2) == 0 && free[node] >= e.fewest {
			e.base[node] = e.fewest
			free[node] -= e.fewest
			e.penalty = random.Float64()
		}
		if random.IntN(4) == 0 {
			e.barred = make([]bool, len(m.nodes))
			e.barred[random.IntN(len(m.nodes))] = e.base.gpus() == 0
		}
		model := table.Model(names[random.IntN(len(names))])
		for spread := range e.speedup {
			for n := range e.most + 1 {
				s := 0.0
				if n > 0 {
					s, _ = model.Goodput(spread+1, n)
					s /= model.Rate(1, 1)
				}
				e.speedup[spread] = append(e.speedup[spread], s)
			}
		}
		m.jobs = append(m.jobs, e)
	}
	return m
}

func TestPolluxSearchAgainstAllMatrices(t *testing.T) {
	missed := 0
	for seed := range uint64(150) {
		m := small(rand.New(rand.NewPCG(seed, 1)), 3, 4, 3)
		want := exhaust(m)
		rows := m.search(rand.New(rand.NewPCG(seed, 2)), 12)
		if what := unlawful(m, rows); what != "" {
			t.Fatalf("problem %d: %s: %v", seed, what, rows)
		}
		got := m.filled(rows...).fitness()
		if got < want*(1-1e-9) {
			missed++
			t.Logf("problem %d: %g of %g: %v", seed, got, want, rows)
		}
		if got > want*(1+1e-9) || got < want*0.95 {
			t.Fatalf("problem %d: the search found %g, the best is %g", seed, got, want)
		}
	}
	if missed > 3 {
		t.Errorf("the best was missed %d times of 150", missed)
	}
}

func TestPolluxSearchKeepsTheRulesOnManyNodes(t *testing.T) {
	for seed := range uint64(20) {
		m := small(rand.New(rand.NewPCG(seed, 3)), 40, 8, 40)
		for _, e := range m.jobs {
			for spread := range e.speedup { // any number of GPUs
				for n := len(e.speedup[spread]); n <= 64; n++ {
					e.speedup[spread] = append(e.speedup[spread], float64(n))
				}
			}
			e.most = 64
		}
		rows := m.search(rand.New(rand.NewPCG(seed, 4)), 1)
		if what := unlawful(m, rows); what != "" {
			t.Fatalf("problem %d: %s", seed, what)
		}
		kept := m.newState()
		for job, e := range m.jobs {
			if e.base.gpus() > 0 {
				kept.set(job, e.base)
			}
		}
		if got := m.filled(rows...).fitness(); got < kept.fitness() {
			t.Errorf("problem %d: %g, and with nothing changed %g", seed, got, kept.fitness())
		}
	}
}

func TestPolluxGrowsByDoubling(t *testing.T) {
	p := NewPollux(throughput.NewTable(), 1)
	nodes := machines(2, 8, "")
	j := elasticJob(1, "resnet50", 16, 10*time.Hour)
	for i, want := range []int{2, 4, 8, 16, 16} {
		v := schedulertest.NewView(time.Duration(i+1)*time.Hour, nodes, j)
		answer := p.Allocate(v)
		if len(answer) != 1 || answer[0].GPUs > want || (want < 16 && answer[0].GPUs < want) {
			t.Fatalf("in round %d the job has %v", i, answer)
		}
		j.Phase, j.On = scheduler.Running, answer[0].On
	}
}

// TestPolluxWeighsRestarts: a job that was restarted often is left alone; another one moves to
// where it gains.
func TestPolluxWeighsRestarts(t *testing.T) {
	move := func(preemptions int) int {
		j := elasticJob(1, "resnet50", 4, 10*time.Hour)
		j.Phase, j.On, j.Preemptions = scheduler.Running, cluster.Placement{
			{Node: 0, Index: 0},
			{Node: 0, Index: 1},
		}, preemptions
		return NewPollux(throughput.NewTable(), 1).Allocate(schedulertest.NewView(time.Hour, machines(1, 4, ""), j))[0].GPUs
	}
	if n := move(0); n != 4 {
		t.Errorf("a job that was never restarted has %d GPUs", n)
	}
	if n := move(100); n != 2 {
		t.Errorf("a job that was restarted 100 times in an hour is given %d GPUs", n)
	}
}
