package ckpt

import "sync"

// progress sums the progress of the parts of a phase.
type progress struct {
	report func(Step)

	mu    sync.Mutex // guards name and parts; held while report runs, so that reports stay in order
	phaseName  string
	parts map[int]Step
}

func newProgress(tell func(Step)) *progress {
	if tell == nil {
		tell = func(Step) {}
	}
	return &progress{report: tell, parts: make(map[int]Step)}
}

// phase begins a new phase.
func (g *progress) phase(begun Step) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(begun.Phase)
	g.report(begun)
}

func (g *progress) begin(name string) {
	g.phaseName = name
	clear(g.parts)
}

// part records the progress of one part and reports the sum.
func (g *progress) part(number int, now Step) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Phase != g.phaseName {
		g.begin(now.Phase)
	}
	g.parts[number] = now
	sum := Step{Phase: g.phaseName}
	for _, each := range g.parts {
		sum.DoneBytes += each.DoneBytes
		sum.TotalBytes += each.TotalBytes
	}
	g.report(sum)
}
