package session

import (
	"context"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/backlog"
)

// Session is the leader's end of the stream to an agent. Messages wait in it until the stream takes
// them, so that a slow agent holds up no other.
type Session struct {
	pending  *backlog.List[*api.ToAgent]
	ending   sync.Once
	ended    error // set before finished is closed
	finished chan struct{}
}

// New returns a session that has sent nothing yet.
func New() *Session {
	return &Session{pending: backlog.New[*api.ToAgent](), finished: make(chan struct{})}
}

// Send queues a message.
func (s *Session) Send(message *api.ToAgent) { s.pending.Add(message) }

// Orders queues orders.
func (s *Session) Orders(o *api.Orders) {
	s.Send(&api.ToAgent{Message: &api.ToAgent_Orders{Orders: o}})
}

// End ends the stream with an error. The first one counts.
func (s *Session) End(err error) {
	s.ending.Do(func() {
		s.ended = err
		close(s.finished)
	})
}

// Serve sends what waits until the session is ended, and returns why.
func (s *Session) Serve(ctx context.Context, send func(*api.ToAgent) error) error {
	for {
		for _, message := range s.pending.Take() {
			if err := send(message); err != nil {
				return err
			}
		}
		select {
		case <-s.pending.Ready():
		case <-s.finished:
			return s.ended
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
