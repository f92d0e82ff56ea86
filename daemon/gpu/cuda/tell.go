package cuda

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// What a Tell runs is run behind the driver's back: an event of the driver's says where in the
// stream it belongs, a goroutine waits for that, and the stream goes on meanwhile. Who waits for
// the stream himself runs what is due without waiting for the goroutine to wake. However many are
// due at once, it wakes once.

// tell is a function of the session, and the mark that has to be reached before it is run; nil when
// nothing has to be.
type tell struct {
	mark *mark
	do   func()
	// own ones are not the session's: nobody waits for them.
	own bool
}

// due reports whether its time has come. In a context that stops, nobody waits for the driver.
func (t *tell) due() bool { return t.mark == nil || gpu.Code(t.mark.query()) != abi.NotReady }

// tell has a function run once the driver has done all that it was given so far. mu is held.
func (s *Stream) tell(do func(), own bool) error {
	m, err := s.here()
	if err == nil {
		s.tellAt(tell{m, do, own})
	}
	return err
}

// tellAt has a function run at a mark, which comes after those of earlier ones or was reached. mu
// is held.
func (s *Stream) tellAt(t tell) {
	s.tells = append(s.tells, t)
	if !s.watched {
		s.watched = true
		go s.watch()
	}
}

// here is a mark at the end of what the driver was given, to be dropped by who has asked: the
// latest recording of an event, if nothing came after it, else one of our own. It is nil in a
// context that stops. mu is held.
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

// endsWith notes that the last thing that the driver was given is a mark, or for nil, something
// else. mu is held.
func (s *Stream) endsWith(m *mark) {
	if m != nil {
		m.users.Add(1)
	}
	s.tail.drop()
	s.tail = m
}

// watch runs what is due until nothing is left.
func (s *Stream) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tells) > 0 {
		if m := s.tells[0].mark; m != nil {
			m.users.Add(1)
			s.mu.Unlock()
			_ = m.await() // what is wrong, who asks next is told
			m.drop()
			s.mu.Lock()
		}
		if !s.tellDue() && s.telling {
			s.progress.Wait() // somebody else is at it
		}
	}
	s.watched = false
	s.progress.Broadcast()
}

// await returns when the driver has come to a mark that it was given, or the context stops. The
// error is what the driver says instead of having come there.
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

// tellDue runs what is due, one after the other, and reports whether there was any; not while
// somebody else does. mu is held, but not while a function runs.
func (s *Stream) tellDue() (some bool) {
	if s.telling {
		return false
	}
	s.telling = true
	due := 0 // how many are known to be due
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

// awaitTells returns once so many functions were run in all.
func (s *Stream) awaitTells(target uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.told < target {
		if !s.tellDue() && s.told < target {
			s.progress.Wait()
		}
	}
}

// quiet reports whether no function is left to run, after running what is due. mu is held.
func (s *Stream) quiet() bool {
	s.tellDue()
	return len(s.tells) == 0 && !s.telling
}
