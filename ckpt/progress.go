package ckpt

import (
	"io"
	"sync"
)

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

// phase begins a phase, unless it is the present one. A retry begins earlier phases again.
func (p *progress) phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != p.phaseName {
		p.begin(name)
		p.report(Step{Phase: name})
	}
}

// begin starts a phase; the caller holds p.mu.
func (p *progress) begin(name string) {
	p.phaseName = name
	clear(p.parts)
}

// part records the progress of one part and reports the sum. The first part of all begins its
// phase. Later ones that are not of the present phase are late: workers repeat their last report.
func (p *progress) part(number int, now Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phaseName == "" {
		p.begin(now.Phase)
	}
	if now.Phase != p.phaseName {
		return
	}
	p.parts[number] = now
	sum := Step{Phase: p.phaseName}
	for _, each := range p.parts {
		sum.DoneBytes += each.DoneBytes
		sum.TotalBytes += each.TotalBytes
	}
	p.report(sum)
}

// processesPart is the number of the part that writes the processes. GPU halves have pids.
const processesPart = 0

// counted reports how much of something has been read, as the part of the processes.
type counted struct {
	progress *progress

	mu  sync.Mutex // guards now; taken before the lock of progress
	now Step
}

// reader counts what is read from r.
func (c *counted) reader(r io.Reader) io.Reader { return io.TeeReader(r, c) }

// Write counts bytes.
func (c *counted) Write(raw []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.DoneBytes += uint64(len(raw))
	c.progress.part(processesPart, c.now)
	return len(raw), nil
}
