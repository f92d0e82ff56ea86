package capture

import (
	"context"
	"sync"
	"time"
)

// pace lets so many bytes a second pass.
type pace struct {
	bytesPerSecond uint64

	mu   sync.Mutex
	next time.Time // when the next bytes may pass
}

func newPace(bytesPerSecond uint64) *pace { return &pace{bytesPerSecond: bytesPerSecond} }

// wait returns when bytes may pass. It does not make up for time in which nobody asked.
func (p *pace) wait(ctx context.Context, bytes uint64) error {
	if p.bytesPerSecond == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(time.Duration(float64(bytes) / float64(p.bytesPerSecond) * float64(time.Second)))
	p.mu.Unlock()
	if !at.After(now) {
		return ctx.Err()
	}
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
