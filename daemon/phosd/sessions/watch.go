package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/lender"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// lendRetry is between two attempts to reach a worker that may borrow files.
	lendRetry = time.Second
	// descriptorRetry is between two attempts at something that failed for lack of file descriptors.
	descriptorRetry = 20 * time.Millisecond
)

// watch registers a session, and removes it when its worker has died.
func (m *Sessions) watch(s *Session) {
	s.since = time.Now()
	m.registry.add(s)
	forget := m.watchExit(s)
	m.watchers.Go(func() { m.watchProgram(s) })
	m.watchers.Go(func() {
		err := s.worker.Wait()
		forget()
		select {
		case <-s.detached:
			return
		default:
		}
		if err != nil {
			m.log.Error("watch worker", "session", s.record.Session, "error", err)
		}
		m.remove(s)
	})
}

// lend opens files for the session's worker until the session ends or phosd does. A slow worker
// delays only itself, so Close does not wait for this goroutine.
func (m *Sessions) lend(s *Session) {
	record := s.record
	lending := lender.Session{
		Worker: s.control.Worker, Control: s.controlPath,
		Program: record.Program, UID: record.Owner.UID, GID: record.Owner.GID, Groups: record.Groups,
		Log: m.log.With("session", record.Session),
	}
	go func() {
		for {
			err := lender.Serve(m.life, lending)
			select {
			case <-s.ended:
				return
			case <-s.detached:
				return
			case <-m.life.Done():
				return
			case <-time.After(lendRetry): // the worker was not reached, as without a free descriptor
				m.log.Debug("lender disconnected from worker", "session", record.Session, "error", err)
			}
		}
	}()
}

// watchExit stops the worker as soon as the kernel begins to end the program, where the kernel
// reports that. What the worker holds is then free before the program's memory is. The worker sees
// the program's end itself in any case.
func (m *Sessions) watchExit(s *Session) (forget func()) {
	if m.exits == nil {
		return func() {}
	}
	forget, err := m.exits.Add(s.record.Program.PID, func() {
		ctx, cancel := context.WithTimeout(m.life, endTimeout)
		defer cancel()
		_, _ = s.control.Worker.Stop(ctx, &api.WorkerStopRequest{Reason: "the program has ended"})
	})
	if err != nil {
		m.log.Debug("early exit watch not available", "session", s.record.Session, "error", err)
		return func() {}
	}
	return forget
}

// watchProgram kills a worker that outlives its program: if it hangs, it holds GPU memory for
// nothing.
func (m *Sessions) watchProgram(s *Session) {
	if err := s.program.Wait(); err != nil {
		return
	}
	select {
	case <-s.ended:
	case <-s.detached:
	case <-time.After(outliveTimeout):
		m.log.Warn("worker outlived its program; killing it", "session", s.record.Session, "worker", s.record.Worker.PID)
		s.kill()
	}
}

// retryDescriptors calls do again as long as it fails for lack of file descriptors. When phosd
// ends, the next one takes over.
func (m *Sessions) retryDescriptors(do func() error) error {
	for logged := false; ; {
		err := do()
		if !proc.Unknown(err) {
			return err
		}
		if !logged {
			m.log.Error("cannot tell a program yet that its worker is dead; retrying", "error", err)
			logged = true
		}
		select {
		case <-time.After(descriptorRetry):
		case <-m.life.Done():
			return err
		}
	}
}

// remove removes everything of a session whose worker is dead. The program is told first: it may be
// waiting.
func (m *Sessions) remove(s *Session) {
	id := s.record.Session
	m.keepLost(s) // while its files are there
	err := m.retryDescriptors(func() error { return m.dir.MarkDead(id) })
	if s.reap != nil {
		if status := s.reap(); status != nil {
			m.log.Warn("worker died", "session", id, "worker", s.record.Worker.PID, "status", status)
		}
	}
	m.devices.Ledger().Clear(s.slot.number)
	m.registry.release(s.slot)
	m.revoke(s)
	m.records.Lock() // SetCheckpoint must not write the record again
	err = errors.Join(err, m.dir.Remove(id))
	m.registry.remove(s)
	m.records.Unlock()
	if err != nil {
		m.log.Error("remove session", "session", id, "error", err)
	}
	m.metrics.Ended()
	m.log.Info("session ended", "session", id, "pid", s.record.Program.PID, "uid", s.record.Owner.UID)
	close(s.ended)
	s.detach()
}

// SetCheckpoint records what became of a program's checkpoints, for --status and for the next
// phosd.
func (m *Sessions) SetCheckpoint(s *Session, checkpoint rundir.Checkpoint) {
	s.checkpoint.Store(&checkpoint)
	m.records.Lock()
	defer m.records.Unlock()
	if !m.registry.has(s) {
		return
	}
	record := s.record
	record.Checkpoint = s.checkpoint.Load()
	if err := m.dir.Save(record); err != nil {
		m.log.Error("record checkpoint", "session", s.record.Session, "error", err)
	}
}

// Fail implements devices.Sessions: later calls of the program fail. Only the first reason counts.
func (m *Sessions) Fail(session uint64, reason string) {
	s := m.registry.find(session)
	if s == nil || !s.failure.CompareAndSwap(nil, &reason) {
		return
	}
	m.log.Error("GPU of a program lost", "session", session, "pid", s.record.Program.PID, "what", reason)
	if err := m.dir.MarkFailed(session, abi.DeviceUnavailable); err != nil {
		m.log.Error("mark program failed", "session", session, "error", err)
	}
}

// FetchSettings asks the workers that have not described their programs yet, in the background.
func (m *Sessions) FetchSettings() {
	for _, s := range m.All() {
		if s.Settings() == nil && s.describing.CompareAndSwap(false, true) {
			m.watchers.Go(func() {
				defer s.describing.Store(false)
				s.AwaitSettings(m.life)
			})
		}
	}
}
