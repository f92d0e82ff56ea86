package worker

import "sync"

// state is how far a revival is. Anybody may wait for its next change.
type state struct {
	// heard is closed when somebody was told of the failure.
	heard chan struct{}
	once  sync.Once

	mu      sync.Mutex
	now     stage
	err     error
	changed chan struct{}
}

// stage is what has come true so far.
type stage struct {
	ready, loaded, attached bool
}

func newState() state {
	return state{heard: make(chan struct{}), changed: make(chan struct{})}
}

func (s *state) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *state) ready() { s.set(func() { s.now.ready = true }) }

func (s *state) done() { s.set(func() { s.now.loaded = true }) }

func (s *state) attach() { s.set(func() { s.now.attached = true }) }

func (s *state) fail(err error) { s.set(func() { s.err = err }) }

// look returns the state, and what is closed when it is another one.
func (s *state) look() (now stage, err error, changed <-chan struct{}) { //nolint:revive,staticcheck // the error is a part of the state
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.err, s.changed
}

func (s *state) isAttached() bool {
	now, _, _ := s.look()
	return now.attached
}

func (s *state) tell() { s.once.Do(func() { close(s.heard) }) }
