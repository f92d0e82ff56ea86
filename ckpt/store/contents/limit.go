package contents

import (
	"context"
	"sync"
	"time"
)

// Limit holds several writers together to so many bytes a second. A nil one does not.
type Limit struct {
	bytesPerSecond float64

	mu sync.Mutex
	// next is when what was let through so far is paid for.
	next time.Time
}

// NewLimit returns nil, which is no limit, for 0.
func NewLimit(bytesPerSecond uint64) *Limit {
	if bytesPerSecond == 0 {
		return nil
	}
	return &Limit{bytesPerSecond: float64(bytesPerSecond)}
}

// Wait lets so many bytes through when it is their time.
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

// reserve returns the time at which bytes may go.
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
