package control

import (
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
)

// session is the leader's end of the stream to an agent. Messages wait in it until the stream takes
// them, so that a slow agent holds up no other.
type session struct {
	mu       sync.Mutex
	pending  []*api.ToAgent
	ended    error
	ready    chan struct{}
	finished chan struct{}
}

func newSession() *session {
	return &session{ready: make(chan struct{}, 1), finished: make(chan struct{})}
}

// send queues a message.
func (s *session) send(message *api.ToAgent) {
	s.mu.Lock()
	s.pending = append(s.pending, message)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// order queues an order.
func (s *session) order(o *api.Order) {
	s.send(&api.ToAgent{Message: &api.ToAgent_Orders{Orders: &api.Orders{Epoch: o.GetEpoch(), Orders: []*api.Order{o}}}})
}

// take removes all messages that wait.
func (s *session) take() []*api.ToAgent {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := s.pending
	s.pending = nil
	return messages
}

// end ends the stream with an error.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
		close(s.finished)
	}
}

// reason returns the error that the session was ended with.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
