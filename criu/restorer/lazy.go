package restorer

import (
	"context"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/criu/pager"
)

// startRelay begins to keep what the pager needs, if the tree has one.
func (s *server) startRelay() (err error) {
	link := s.file(s.order.Pager)
	if link == nil {
		return nil
	}
	s.relay, err = pager.NewRelay(link, s.files[s.order.Images], pager.Hooks{Kill: s.lose, Track: s.userfaultfds.add})
	return err
}

// lose kills a tree that cannot have its memory, and keeps the reason for later requests.
func (s *server) lose(reason string) {
	s.lost.Store(&reason)
	fmt.Fprintf(os.Stderr, "the restored tree of pid %d is killed: %s\n", s.order.Root, reason)
	if err := s.killAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// waitLoaded waits until all memory of the tree is there, or the tree has ended.
func (s *server) waitLoaded() answer {
	if s.relay == nil {
		return answer{}
	}
	return newAnswer(s.relay.Wait(context.Background()))
}

// loading reports whether memory is still coming.
func (s *server) loading() bool { return s.relay != nil && !s.relay.Loaded() }

// whyLost returns why the tree was killed; empty if it was not.
func (s *server) whyLost() string {
	if reason := s.lost.Load(); reason != nil {
		return *reason
	}
	return ""
}
