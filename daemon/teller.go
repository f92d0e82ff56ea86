package daemon

import (
	"sync"
	"time"
)

// tellTime is between two reports of the same phase.
const tellTime = 100 * time.Millisecond

// teller sends the events of one stream, from any goroutine. Whether anybody hears them is found out elsewhere.
type teller[E any] struct {
	send func(E) error

	mu    sync.Mutex // guards all below, and sending
	phase string
	last  time.Time
}

func (t *teller[E]) tell(event E) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.send(event)
}

// tellLatest leaves out what comes too soon after the last report of its phase.
func (t *teller[E]) tellLatest(phase string, event E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if phase == t.phase && now.Sub(t.last) < tellTime {
		return
	}
	t.phase, t.last = phase, now
	_ = t.send(event)
}
