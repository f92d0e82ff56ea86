package cuda

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// The driver does not run a Completion: an event of the driver marks its place in the
// stream, a goroutine waits for the event, and the stream goes on. Synchronize and queries run due
// completions themselves, without waiting for the goroutine to wake. The goroutine wakes once,
// however many completions are due.

// completion is a function of the session that runs after an event record is reached; at once if
// after is nil.
type completion struct {
	after *eventRecord
	run   func()
	// own is set for functions of this package; nothing waits for them.
	own bool
}

// due reports whether the function can run. A stopping context does not wait for the driver.
func (t *completion) due() bool { return t.after == nil || gpu.Code(t.after.query()) != abi.NotReady }

// addCompletion runs do once all work given to the driver so far is done. mu is held.
func (s *Stream) addCompletion(do func(), own bool) error {
	m, err := s.tailRecord()
	if err == nil {
		s.addCompletionAfter(completion{m, do, own})
	}
	return err
}

// addCompletionAfter adds a completion whose event record is not earlier than those of the ones
// before. mu is held.
func (s *Stream) addCompletionAfter(t completion) {
	s.completions = append(s.completions, t)
	if !s.watched {
		s.watched = true
		go s.watchCompletions()
	}
}

// tailRecord returns an event record at the end of the stream; the caller releases it. It is the
// stream's last event record if no work came after it, or a new one. It is nil in a stopping
// context. mu is held.
func (s *Stream) tailRecord() (*eventRecord, error) {
	c := s.context
	if s.destroyed || c.stopping() {
		return nil, nil
	}
	if s.tail == nil {
		m := &eventRecord{context: c}
		m.references.Store(1)
		if err := c.driverErr("record event", m.record(s)); err != nil {
			m.release()
			if c.stopping() {
				return nil, nil
			}
			return nil, err
		}
		m.release()
	}
	s.tail.references.Add(1)
	return s.tail, nil
}

// setTail notes the event record that is the last work given to the driver, or nil if other work
// is. mu is held.
func (s *Stream) setTail(m *eventRecord) {
	if m != nil {
		m.references.Add(1)
	}
	s.tail.release()
	s.tail = m
}

// watchCompletions runs completions until none are left.
func (s *Stream) watchCompletions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.completions) > 0 {
		if m := s.completions[0].after; m != nil {
			m.references.Add(1)
			s.mu.Unlock()
			_ = m.wait() // an error is sticky and is reported by the next call
			m.release()
			s.mu.Lock()
		}
		if !s.runDue() && s.completing {
			s.progress.Wait() // another goroutine runs completions
		}
	}
	s.watched = false
	s.progress.Broadcast()
}

// wait waits until the event record is reached or the context stops. It returns the driver's error
// if the driver reports one instead. The record must be settled.
func (m *eventRecord) wait() error {
	c := m.context
	if err := m.query(); gpu.Code(err) != abi.NotReady {
		return err
	}
	native, _ := m.state()
	reached := make(chan error, 1)
	go func() { reached <- c.driver.EventSynchronize(c.native, native) }()
	select {
	case err := <-reached:
		return c.driverErr("wait for event", err)
	case <-c.stop:
		return c.Fault()
	}
}

// runDue runs due completions one at a time, and reports whether it ran any. It returns at once
// while another goroutine runs them. mu is held, but not while a completion runs.
func (s *Stream) runDue() (some bool) {
	if s.completing {
		return false
	}
	s.completing = true
	due := 0 // lower bound of the number of due completions
	if n := len(s.completions); n > 0 && s.completions[n-1].due() {
		due = n
	}
	for len(s.completions) > 0 && (due > 0 || s.completions[0].due()) {
		t := s.completions[0]
		s.completions[0] = completion{}
		s.completions = s.completions[1:]
		s.mu.Unlock()
		t.run()
		t.after.release()
		s.mu.Lock()
		if !t.own {
			s.completionsRun++
		}
		due--
		some = true
	}
	if len(s.completions) == 0 {
		s.completions = nil
	}
	s.completing = false
	s.progress.Broadcast()
	return some
}

// waitCompletions waits until target completions have run in total.
func (s *Stream) waitCompletions(target uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.completionsRun < target {
		if !s.runDue() && s.completionsRun < target {
			s.progress.Wait()
		}
	}
}

// runAllDue runs due completions and reports whether none are left. mu is held.
func (s *Stream) runAllDue() bool {
	s.runDue()
	return len(s.completions) == 0 && !s.completing
}
