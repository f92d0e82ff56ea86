package cuda

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// A Tell is a completion. The driver does not run it: an event of the driver marks its place in the
// stream, a goroutine waits for the event, and the stream goes on. Synchronize and queries run due
// completions themselves, without waiting for the goroutine to wake. The goroutine wakes once,
// however many completions are due.

// completion is a function of the session that runs after an event record is reached; at once if
// after is nil.
type tell struct {
	mark *mark
	do   func()
	// own is set for functions of this package; nothing waits for them.
	own bool
}

// due reports whether the function can run. A stopping context does not wait for the driver.
func (t *tell) due() bool { return t.mark == nil || gpu.Code(t.mark.query()) != abi.NotReady }

// addCompletion runs do once all work given to the driver so far is done. mu is held.
func (s *Stream) tell(do func(), own bool) error {
	m, err := s.here()
	if err == nil {
		s.tellAt(tell{m, do, own})
	}
	return err
}

// addCompletionAfter adds a completion whose event record is not earlier than those of the ones
// before. mu is held.
func (s *Stream) tellAt(t tell) {
	s.tells = append(s.tells, t)
	if !s.watched {
		s.watched = true
		go s.watch()
	}
}

// tailRecord returns an event record at the end of the stream; the caller releases it. It is the
// stream's last event record if no work came after it, or a new one. It is nil in a stopping
// context. mu is held.
func (s *Stream) here() (*mark, error) {
	c := s.context
	if s.gone || c.stopping() {
		return nil, nil
	}
	if s.tail == nil {
		m := &mark{context: c}
		m.users.Store(1)
		if err := c.noted("record event", m.record(s)); err != nil {
			m.drop()
			if c.stopping() {
				return nil, nil
			}
			return nil, err
		}
		m.drop()
	}
	s.tail.users.Add(1)
	return s.tail, nil
}

// setTail notes the event record that is the last work given to the driver, or nil if other work
// is. mu is held.
func (s *Stream) endsWith(m *mark) {
	if m != nil {
		m.users.Add(1)
	}
	s.tail.drop()
	s.tail = m
}

// watch runs completions until none are left.
func (s *Stream) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tells) > 0 {
		if m := s.tells[0].mark; m != nil {
			m.users.Add(1)
			s.mu.Unlock()
			_ = m.await() // an error is sticky and is reported by the next call
			m.drop()
			s.mu.Lock()
		}
		if !s.tellDue() && s.telling {
			s.progress.Wait() // another goroutine runs completions
		}
	}
	s.watched = false
	s.progress.Broadcast()
}

// wait waits until the event record is reached or the context stops. It returns the driver's error
// if the driver reports one instead. The record must be settled.
func (m *mark) await() error {
	c := m.context
	if err := m.query(); gpu.Code(err) != abi.NotReady {
		return err
	}
	native, _ := m.known()
	reached := make(chan error, 1)
	go func() { reached <- c.driver.EventSynchronize(c.native, native) }()
	select {
	case err := <-reached:
		return c.noted("wait for event", err)
	case <-c.stop:
		return c.Fault()
	}
}

// runDue runs due completions one at a time, and reports whether it ran any. It returns at once
// while another goroutine runs them. mu is held, but not while a completion runs.
func (s *Stream) tellDue() (some bool) {
	if s.telling {
		return false
	}
	s.telling = true
	due := 0 // lower bound of the number of due completions
	if n := len(s.tells); n > 0 && s.tells[n-1].due() {
		due = n
	}
	for len(s.tells) > 0 && (due > 0 || s.tells[0].due()) {
		t := s.tells[0]
		s.tells[0] = tell{}
		s.tells = s.tells[1:]
		s.mu.Unlock()
		t.do()
		t.mark.drop()
		s.mu.Lock()
		if !t.own {
			s.told++
		}
		due--
		some = true
	}
	if len(s.tells) == 0 {
		s.tells = nil
	}
	s.telling = false
	s.progress.Broadcast()
	return some
}

// waitCompletions waits until target completions have run in total.
func (s *Stream) awaitTells(target uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.told < target {
		if !s.tellDue() && s.told < target {
			s.progress.Wait()
		}
	}
}

// runAllDue runs due completions and reports whether none are left. mu is held.
func (s *Stream) quiet() bool {
	s.tellDue()
	return len(s.tells) == 0 && !s.telling
}
