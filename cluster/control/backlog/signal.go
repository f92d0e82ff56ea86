package backlog

// Signal wakes one goroutine. Signals that come before it has looked count as one.
type Signal chan struct{}

// NewSignal returns a signal on which nothing waits yet.
func NewSignal() Signal { return make(Signal, 1) }

// Send wakes the goroutine that receives.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // it will look anyway
	}
}
