package worker

import "sync"

// restoreState is the progress of a restore. Any goroutine may wait for its next change.
type restoreState struct {
	// reported is closed when the failure was reported to phosd.
	reported chan struct{}
	once     sync.Once

	mu      sync.Mutex
	reached stage
	err     error
	changed chan struct{}
}

// stage holds the milestones that the restore has reached.
type stage struct {
	ready, loaded, attached bool
}

func newRestoreState() restoreState {
	return restoreState{reported: make(chan struct{}), changed: make(chan struct{})}
}

// set applies a change and wakes all waiters.
func (s *restoreState) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *restoreState) setReady() { s.set(func() { s.reached.ready = true }) }

func (s *restoreState) setLoaded() { s.set(func() { s.reached.loaded = true }) }

func (s *restoreState) setAttached() { s.set(func() { s.reached.attached = true }) }

func (s *restoreState) fail(err error) { s.set(func() { s.err = err }) }

// look returns the state, and a channel that is closed at its next change.
//
//nolint:revive,staticcheck // the error is part of the state
func (s *restoreState) look() (now stage, err error, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached, s.err, s.changed
}

// isAttached reports whether the restored program has its session.
func (s *restoreState) isAttached() bool {
	now, _, _ := s.look()
	return now.attached
}

func (s *restoreState) setReported() { s.once.Do(func() { close(s.reported) }) }
