package criu

import (
	"context"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// unfinished is a restore whose tree does not run yet. Its processes exist: nothing may be saved of
// them, nor may they be stopped.
type unfinished struct {
	// pids are those of the tree; none if they are not known before it is restored.
	pids []int
	over chan struct{}
	end  sync.Once
}

// finish says that the tree runs now, or was killed.
func (u *unfinished) finish() { u.end.Do(func() { close(u.over) }) }

// begin adds a restore of processes with these pids.
func (s *sharing) begin(pids []int) *unfinished {
	u := &unfinished{pids: pids, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfinished = slices.DeleteFunc(s.unfinished, (*unfinished).isOver)
	s.unfinished = append(s.unfinished, u)
	return u
}

// isOver reports whether finish was called.
func (u *unfinished) isOver() bool {
	select {
	case <-u.over:
		return true
	default:
		return false
	}
}

// unfinishedWith returns the restores that may have made a process.
func (s *sharing) unfinishedWith(process proc.Identity) (found []*unfinished) {
	tree := s.treeOf(process)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.unfinished {
		if slices.Contains(u.pids, process.PID) || tree != nil && tree.unfinished == u {
			found = append(found, u)
		}
	}
	return found
}

// waitFinished waits until the restore that has made a process is over.
func (s *sharing) waitFinished(ctx context.Context, process proc.Identity) error {
	for _, u := range s.unfinishedWith(process) {
		select {
		case <-u.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
