package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// commandBytes is how much of a command line a record holds.
const commandBytes = 256

// Start starts a session for the program at the other end of a connection. It answers the program
// only to refuse it; the worker gets the connection and does the handshake.
func (m *Sessions) Start(conn *net.UnixConn, caller api.Caller) {
	defer conn.Close()
	begin := time.Now()
	s, err := m.start(conn, caller)
	if err != nil {
		m.log.Warn("program refused", "pid", caller.Process.PID, "uid", caller.UID, "error", err)
		m.metrics.Refused()
		refuse(conn, err)
		return
	}
	m.metrics.Started(time.Since(begin))
	m.log.Info("session started", "session", s.record.Session, "pid", caller.Process.PID, "uid", caller.UID,
		"worker", s.record.Worker.PID, "command", s.record.Command)
}

func (m *Sessions) start(conn *net.UnixConn, caller api.Caller) (*Session, error) {
	if err := errors.Join(caller.CheckVisible(), caller.Identified()); err != nil {
		return nil, err
	}
	if err := m.options.MayUse(caller); err != nil {
		return nil, err
	}
	program, err := proc.Open(caller.Process)
	if err != nil {
		return nil, err
	}
	// A process has one session. If it has one already, it has called exec since.
	for _, old := range m.Of(program.Identity) {
		old.end(context.Background(), "the program was replaced by exec")
	}
	if m.options.Starting != nil {
		if err := m.options.Starting(m.life, program.Identity); err != nil {
			return nil, errors.Join(err, program.Close())
		}
	}
	given, err := m.reserve(caller.UID)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	s, err := m.create(conn, caller, program, given)
	if err != nil {
		m.release(given)
		return nil, errors.Join(err, program.Close())
	}
	m.watch(s)
	m.lend(s)
	return s, nil
}

// reserve takes a slot for a user's program, with a standby worker if one is ready.
func (m *Sessions) reserve(uid uint32) (slot, error) {
	// First, because a standby worker that was taken in vain ends: refused users must not use up all.
	if err := m.registry.check(uid); err != nil {
		return slot{}, err
	}
	accounts, worker := m.devices.Ledger(), m.pool.Take()
	for worker != nil && !accounts.ClaimStandby(worker.Slot) {
		m.pool.Release(worker) // it is about to end, to free its memory
		worker = m.pool.Take()
	}
	given, err := m.registry.reserve(uid, worker)
	if err != nil {
		if worker != nil {
			m.pool.Release(worker)
		}
		return slot{}, err
	}
	// The session accounts again for what its standby worker has accounted.
	accounts.Clear(given.number)
	accounts.SetTenant(given.number, given.tenant)
	if err := m.reserveSession(given); err != nil {
		m.release(given)
		return slot{}, err
	}
	return given, nil
}

// reserveSession accounts for the file of a session, which is allocated in full. If other programs
// hold memory that they have not reserved, it waits until that is freed.
func (m *Sessions) reserveSession(given slot) error {
	for begun := time.Now(); ; {
		space, err := m.dir.Space()
		if err == nil {
			err = m.devices.Ledger().ReserveHost(given.number, wire.SessionBytes, space.FreeBytes)
		}
		if err == nil && space.FreeBytes < wire.SessionBytes {
			m.devices.Ledger().ReleaseHost(given.number, wire.SessionBytes)
			err = unix.ENOSPC
		}
		switch {
		case err == nil:
			return nil
		case m.policeMemory() && time.Since(begun) < policeTimeout:
			time.Sleep(minLook / 5) //nolint:forbidigo // the kernel has no event for freed memory
		case ledger.IsShare(err):
			return fmt.Errorf("%w: %w: %s", api.ErrExhausted, err, m.describeHolders(given))
		default:
			return err
		}
	}
}

// describeHolders names the programs of a slot's user that hold most memory of sessions.
func (m *Sessions) describeHolders(given slot) string {
	accounts := m.devices.Ledger()
	var own []*Session
	for _, s := range m.All() {
		if s.record.Owner.UID == given.uid {
			own = append(own, s)
		}
	}
	slices.SortStableFunc(own, func(a, b *Session) int {
		return cmp.Compare(accounts.HostUsage(b.slot.number), accounts.HostUsage(a.slot.number))
	})
	programs := make([]proc.Identity, len(own))
	for i, s := range own {
		programs[i] = s.record.Program
	}
	return quota.Describe(given.uid, programs)
}

// release gives back a slot that got no session.
func (m *Sessions) release(given slot) {
	if given.standby != nil {
		given.standby.End()
	}
	m.devices.Ledger().Clear(given.number)
	m.registry.release(given)
}

// create makes the files and the worker of a session. After an error nothing is left of it.
func (m *Sessions) create(
	conn *net.UnixConn,
	caller api.Caller,
	program *proc.Handle,
	given slot,
) (s *Session, err error) {
	id, err := m.dir.NextSession()
	if err != nil {
		return nil, err
	}
	arenaBytes := uint64(m.options.Config.Sessions.ArenaSize)
	s = newSession(m.dir, rundir.Record{
		Session:    id,
		Owner:      rundir.Owner{UID: caller.UID, GID: caller.GID},
		Groups:     known(caller.Groups),
		Program:    program.Identity,
		Command:    program.Command(commandBytes),
		Gpus:       m.options.Config.Gpus.Offer,
		Started:    time.Now(),
		Ledger:     given.number,
		ArenaBytes: arenaBytes,
	}, given)
	s.program = program
	if m.options.Renumbered != nil {
		s.renumbered = m.options.Renumbered(program.Identity)
	}
	given.program.By(program.Identity)
	if _, err := m.dir.Create(id, s.record.Owner, arenaBytes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.dir.Remove(id))
		}
	}()
	if err := m.spawn(s, conn); err != nil {
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
	// The program may have ended, or may not read. Then the refusal is lost.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(refusal(code, reason))
	// Unread bytes at close would reset the connection, and the program would not see the answer.
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 64))
}

// refusal returns the message that libphos.so turns into an error code and a line on the program's
// standard error.
func refusal(code abi.Result, reason error) []byte {
	welcome := wire.Welcome{Status: code, Message: reason.Error()}
	return welcome.Append(nil)
}
