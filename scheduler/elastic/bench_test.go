package elastic

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkPolluxSearch is one round of a busy cluster of 16 nodes.
func BenchmarkPolluxSearch(b *testing.B) {
	m := small(rand.New(rand.NewPCG(11, 3)), 1, 8, 1)
	for len(m.nodes) < 16 {
		m.nodes = append(m.nodes, 4)
	}
	random := rand.New(rand.NewPCG(12, 3))
	m.jobs = nil
	for len(m.jobs) < 20 {
		e := small(random, 1, 1, 1).jobs[0]
		e.base, e.barred, e.most = make(row, len(m.nodes)), nil, 16
		for spread := range e.speedup {
			e.speedup[spread] = e.speedup[spread][:0]
			for n := range 17 {
				e.speedup[spread] = append(e.speedup[spread], float64(n)/(1+0.1*float64(n*(1+spread))))
			}
		}
		m.jobs = append(m.jobs, e)
	}
	for b.Loop() {
		m.search(rand.New(rand.NewPCG(1, 2)), 12)
	}
}
