package phosd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/worker/lending"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// describeTime is how long a worker may take to say how it stands.
	describeTime = time.Second
	// endTime is how long a worker may take to end by itself before it is killed.
	endTime = time.Second
)

// session is one program and its worker, as phosd sees them.
type session struct {
	record  rundir.Record
	ticket  ticket
	worker  *proc.Handle
	program *proc.Handle
	control *api.WorkerConn
	// reap takes the exit status of a worker that is phosd's own child; nil for an adopted one.
	reap func() error
	// gone is closed when the worker is dead and everything of the session is cleaned up.
	gone chan struct{}
	// abandoned is closed when phosd ends and the session stays.
	abandoned chan struct{}
	once      sync.Once
	// noted is nil for a program that nobody has tried to save.
	noted atomic.Pointer[rundir.Checkpoint]
	// saving counts the checkpoints of the program that are under way.
	saving atomic.Int32
	// failure is why phosd takes the program for failed; nil: it does not.
	failure atomic.Pointer[string]
	// known is since when this phosd looks after the session.
	known time.Time
	// asked is nil until the worker has said what the program wants; asking is set while it is asked.
	asked  atomic.Pointer[asked]
	asking atomic.Bool
}

// describe asks the worker; nil when it does not answer.
func (s *session) describe(ctx context.Context) *api.Description {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	description, err := s.control.Worker.Describe(ctx, &api.DescribeRequest{})
	if err != nil {
		return nil
	}
	return description
}

// end stops the worker, by force when it does not do so itself, and waits until everything is
// cleaned up.
func (s *session) end(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if _, err := s.control.Worker.Stop(ctx, &api.WorkerStopRequest{Reason: reason}); err == nil {
		select {
		case <-s.gone:
			return
		case <-ctx.Done():
		}
	}
	s.kill()
	<-s.gone
}

func (s *session) kill() {
	// That it is gone already is all the better.
	_ = s.worker.Signal(unix.SIGKILL)
}

func (s *session) abandon() {
	s.once.Do(func() {
		close(s.abandoned)
		_ = s.worker.Close()
		_ = s.program.Close()
		_ = s.control.Close()
	})
}

// watch cleans up when the worker has died.
func (d *Daemon) watch(s *session) {
	s.known = time.Now()
	d.table.add(s)
	forget := d.hear(s)
	d.watchers.Go(func() { d.followProgram(s) })
	d.watchers.Go(func() {
		err := s.worker.Wait()
		forget()
		select {
		case <-s.abandoned:
			return
		default:
		}
		if err != nil {
			d.log.Error("watch worker", "session", s.record.Session, "error", err)
		}
		d.cleanUp(s)
	})
}

// lend opens for a session's worker what that may not open itself, until it ends or this phosd
// does. What takes long there is nobody's business but that worker's, so nobody waits for it.
func (d *Daemon) lend(s *session) {
	record := s.record
	lender := lending.Session{
		Worker: s.control.Worker, Control: d.dir.Control(record.Session),
		Program: record.Program, UID: record.Owner.UID, GID: record.Owner.GID, Log: d.log.With("session", record.Session),
	}
	go func() {
		for {
			err := lending.Lend(d.stopping, lender)
			select {
			case <-s.gone:
				return
			case <-s.abandoned:
				return
			case <-d.stopping.Done():
				return
			case <-time.After(lendTime): // phosd could not reach it, as without a descriptor
				d.log.Debug("the worker could borrow nothing", "session", record.Session, "why", err)
			}
		}
	}()
}

// lendTime is between two attempts to reach a worker that may borrow.
const lendTime = time.Second

// hear ends the worker of a program as soon as the kernel begins to take the program away, where it
// tells of that: what the worker holds is free earlier by the time that the program's memory takes.
// The worker sees the end itself in any case.
func (d *Daemon) hear(s *session) (forget func()) {
	if d.exits == nil {
		return func() {}
	}
	forget, err := d.exits.Add(s.record.Program.PID, func() {
		ctx, cancel := context.WithTimeout(d.stopping, endTime)
		defer cancel()
		// A worker that does not hear of it sees it a moment later.
		_, _ = s.control.Worker.Stop(ctx, &api.WorkerStopRequest{Reason: "the program has ended"})
	})
	if err != nil {
		d.log.Debug("an end is heard of late", "session", s.record.Session, "error", err)
		return func() {}
	}
	return forget
}

// followProgram kills a worker that survives its program: one that hangs would hold GPU memory for
// nobody.
func (d *Daemon) followProgram(s *session) {
	if err := s.program.Wait(); err != nil {
		return
	}
	select {
	case <-s.gone:
	case <-s.abandoned:
	case <-time.After(endTime / 2):
		d.log.Warn("worker outlives its program", "session", s.record.Session, "worker", s.record.Worker.PID)
		s.kill()
	}
}

// insistTime is between two attempts at something for which descriptors are missing.
const insistTime = 20 * time.Millisecond

// insist does something until it is not descriptors that it fails for. A phosd that ends leaves it
// to the next one.
func (d *Daemon) insist(do func() error) error {
	for told := false; ; {
		err := do()
		if !proc.Unknown(err) {
			return err
		}
		if !told {
			d.log.Error("a program cannot be told yet that its worker is dead", "error", err)
			told = true
		}
		select {
		case <-time.After(insistTime):
		case <-d.stopping.Done():
			return err
		}
	}
}

// cleanUp takes back everything of a session whose worker is dead. The program is told first: it
// may be waiting.
func (d *Daemon) cleanUp(s *session) {
	id := s.record.Session
	err := d.insist(func() error { return d.dir.MarkDead(id) })
	if s.reap != nil {
		if status := s.reap(); status != nil {
			d.log.Warn("worker died", "session", id, "worker", s.record.Worker.PID, "status", status)
		}
	}
	d.ledger.Clear(s.ticket.slot)
	d.table.giveBack(s.ticket)
	d.retire(s)
	d.records.Lock() // a note that comes now must not write the record again
	err = errors.Join(err, d.dir.Remove(id))
	d.table.remove(s)
	d.records.Unlock()
	if err != nil {
		d.log.Error("clean up", "session", id, "error", err)
	}
	d.metrics.Ended()
	d.log.Info("session ended", "session", id, "pid", s.record.Program.PID, "uid", s.record.Owner.UID)
	close(s.gone)
	s.abandon()
}
