package ckpt

import "sync"

// progress sums the progress of the parts of a phase.
type progress struct {
	report func(Step)

	mu        sync.Mutex // guards phaseName and parts; held while report runs, so that reports stay in order
	phaseName string
	parts     map[int]Step
}

func newProgress(tell func(Step)) *progress {
	if tell == nil {
		tell = func(Step) {}
	}
	return &progress{report: tell, parts: make(map[int]Step)}
}

// phase begins a new phase.
func (p *progress) phase(begun Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(begun.Phase)
	p.report(begun)
}

// begin starts a phase; the caller holds p.mu.
func (p *progress) begin(name string) {
	p.phaseName = name
	clear(p.parts)
}

// part records the progress of one part and reports the sum.
func (p *progress) part(number int, now Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Phase != p.phaseName {
		p.begin(now.Phase)
	}
	p.parts[number] = now
	sum := Step{Phase: p.phaseName}
	for _, each := range p.parts {
		sum.DoneBytes += each.DoneBytes
		sum.TotalBytes += each.TotalBytes
	}
	p.report(sum)
}
