package phosd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const commandBytes = 256

// welcome starts a session for the program at the other end of a connection. It answers only to
// refuse: everything else is said by the worker, which gets the connection.
func (d *Daemon) welcome(conn *net.UnixConn, actor api.Actor) {
	defer conn.Close()
	begin := time.Now()
	s, err := d.start(conn, actor)
	if err != nil {
		d.log.Warn("program refused", "pid", actor.PID, "uid", actor.UID, "error", err)
		d.metrics.Refused()
		refuse(conn, err)
		return
	}
	d.metrics.Started(time.Since(begin))
	d.log.Info("session started", "session", s.record.Session, "pid", actor.PID, "uid", actor.UID,
		"worker", s.record.Worker.PID, "command", s.record.Command)
}

func (d *Daemon) start(conn *net.UnixConn, actor api.Actor) (*session, error) {
	if actor.PID <= 0 {
		return nil, fmt.Errorf("%w: the program is in a pid namespace that phosd cannot see", api.ErrNotPermitted)
	}
	program, err := proc.OpenPID(int(actor.PID))
	if err != nil {
		return nil, err
	}
	// A process has one session: if it has one already, it has called exec since.
	for _, old := range d.table.of(program.Identity) {
		old.end(context.Background(), "the program was replaced by exec")
	}
	given, err := d.admit(actor.UID)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	s, err := d.create(conn, actor, program, given)
	if err != nil {
		d.refund(given)
		return nil, errors.Join(err, program.Close())
	}
	d.watch(s)
	d.lend(s)
	return s, nil
}

// admit gives a program of a user's its place, with a worker that has waited for it if there is
// one.
func (d *Daemon) admit(uid uint32) (ticket, error) {
	waiting, seated := d.pool.Take(), -1
	for waiting != nil && !d.ledger.Claim(waiting.Slot) {
		d.pool.Drop(waiting) // it is about to end, to make room
		waiting = d.pool.Take()
	}
	if waiting != nil {
		seated = waiting.Slot
	}
	given, err := d.table.take(uid, seated)
	if err != nil {
		if waiting != nil {
			d.pool.Drop(waiting)
		}
		return ticket{}, err
	}
	given.waiting = waiting
	// What a worker has accounted while it waited is its session's to take.
	d.ledger.Clear(given.slot)
	return given, nil
}

// refund takes a ticket back of which no session has come.
func (d *Daemon) refund(given ticket) {
	if given.waiting != nil {
		given.waiting.End()
	}
	d.ledger.Clear(given.slot)
	d.table.giveBack(given)
}

// create makes the files and the worker of a session; on an error nothing is left of it.
func (d *Daemon) create(
	conn *net.UnixConn,
	actor api.Actor,
	program *proc.Handle,
	given ticket,
) (s *session, err error) {
	id, err := d.dir.NextSession()
	if err != nil {
		return nil, err
	}
	s = &session{
		record: rundir.Record{
			Session: id,
			Owner:   rundir.Owner{UID: actor.UID, GID: actor.GID},
			Program: program.Identity,
			Command: program.Command(commandBytes),
			Gpus:    d.options.Config.Gpus.Offer,
			Started: time.Now(),
			Ledger:  given.slot,

			ArenaBytes: uint64(d.options.Config.Sessions.ArenaSize),
		},
		ticket: given, program: program,
		gone: make(chan struct{}), abandoned: make(chan struct{}),
	}
	if _, err := d.dir.Create(id, s.record.Owner, uint64(d.options.Config.Sessions.ArenaSize)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.dir.Remove(id))
		}
	}()
	if err := d.spawn(s, conn); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return s, nil
}

// refuse tells a program why it gets no session.
func refuse(conn *net.UnixConn, reason error) {
	code := abi.SystemNotReady
	switch {
	case errors.Is(reason, unix.ENOSPC):
		code = abi.OutOfMemory
		reason = fmt.Errorf("the memory for sessions is full (sessions.tmpfs_size): %w", reason)
	case errors.Is(reason, api.ErrExhausted):
		code = abi.DeviceUnavailable
	case errors.Is(reason, api.ErrNotPermitted):
		code = abi.NotPermitted
	}
	// The program may be gone, or may not read: neither matters to anybody else.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(refusal(code, reason))
	// Unread bytes at close would reset the connection, and the program would not see the answer.
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 64))
}

// refusal is the message that libphos.so turns into an error code and a line on the program's
// standard error.
func refusal(code abi.Result, reason error) []byte {
	welcome := wire.Welcome{Status: code, Message: reason.Error()}
	return welcome.Append(nil)
}
