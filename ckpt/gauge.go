package ckpt

import "sync"

// progress sums the progress of the parts of a phase.
type gauge struct {
	tell func(Step)

	mu    sync.Mutex // guards name and parts; held while report runs, so that reports stay in order
	name  string
	parts map[int]Step
}

func newGauge(tell func(Step)) *gauge {
	if tell == nil {
		tell = func(Step) {}
	}
	return &gauge{tell: tell, parts: make(map[int]Step)}
}

// phase begins a new phase.
func (g *gauge) phase(begun Step) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(begun.Phase)
	g.tell(begun)
}

func (g *gauge) begin(name string) {
	g.name = name
	clear(g.parts)
}

// part records the progress of one part and reports the sum.
func (g *gauge) part(number int, now Step) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Phase != g.name {
		g.begin(now.Phase)
	}
	g.parts[number] = now
	sum := Step{Phase: g.name}
	for _, each := range g.parts {
		sum.DoneBytes += each.DoneBytes
		sum.TotalBytes += each.TotalBytes
	}
	g.tell(sum)
}
