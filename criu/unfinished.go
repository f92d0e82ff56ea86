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
	finished chan struct{}
	once     sync.Once

	mu sync.Mutex // guards restorer
	// restorer is the ancestor of all its processes, once it has started.
	restorer proc.Identity
}

// started says which process is the restorer.
func (u *unfinished) started(restorer proc.Identity) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.restorer = restorer
}

// finish says that the tree runs now, or was killed. It may be called again.
func (u *unfinished) finish() { u.once.Do(func() { close(u.finished) }) }

// isFinished reports whether finish was called.
func (u *unfinished) isFinished() bool {
	select {
	case <-u.finished:
		return true
	default:
		return false
	}
}

// has reports whether a process is one of the tree.
func (u *unfinished) has(process proc.Identity) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.restorer.PID > 0 && proc.Descends(process.PID, u.restorer.PID)
}

// begin adds a restore.
func (s *sharing) begin() *unfinished {
	u := &unfinished{finished: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfinished = slices.DeleteFunc(s.unfinished, (*unfinished).isFinished)
	s.unfinished = append(s.unfinished, u)
	return u
}

// waitFinished waits until the restore that has made a process is finished.
func (s *sharing) waitFinished(ctx context.Context, process proc.Identity) error {
	s.mu.Lock()
	all := slices.Clone(s.unfinished)
	s.mu.Unlock()
	for _, u := range all {
		if u.isFinished() || !u.has(process) {
			continue
		}
		select {
		case <-u.finished:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
