package contents

import (
	"context"
	"sync"
	"time"
)

// Limit limits several writers together to a rate in bytes per second. A nil Limit does not.
type Limit struct {
	bytesPerSecond float64

	mu sync.Mutex
	// next is when the bytes admitted so far are paid for.
	next time.Time
}

// NewLimit returns nil, which means no limit, for 0.
func NewLimit(bytesPerSecond uint64) *Limit {
	if bytesPerSecond == 0 {
		return nil
	}
	return &Limit{bytesPerSecond: float64(bytesPerSecond)}
}

// Wait blocks until so many bytes may be written.
func (l *Limit) Wait(ctx context.Context, bytes int) error {
	if l == nil {
		return ctx.Err()
	}
	wait := time.Until(l.reserve(bytes))
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve returns the time at which bytes may be written.
func (l *Limit) reserve(bytes int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.next.Before(now) {
		l.next = now
	}
	at := l.next
	l.next = at.Add(time.Duration(float64(bytes) / l.bytesPerSecond * float64(time.Second)))
	return at
}
