package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/devices"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	"github.com/phos-gpu/phos/daemon/phosd/metrics"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
	"github.com/phos-gpu/phos/internal/linux/exitwatch"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Options are what Sessions needs.
type Options struct {
	Config  config.Config
	Dir     *rundir.Dir
	Devices *devices.Devices
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// Life ends when phosd ends; sessions go on.
	Life context.Context //nolint:containedctx // phosd's own life, not a request's
	// Worker is the command that becomes a worker.
	Worker []string
	// Environment is what workers have besides a PATH.
	Environment []string
	// WorkerLog is the standard error of workers.
	WorkerLog *os.File
	// Guard lets workers open the GPUs; nil: every process may.
	Guard *guard.Guard
	// Quota counts the programs of each user.
	Quota *quota.Quota
	// MayUse returns an error for a user that may not use phosd.
	MayUse func(api.Caller) error
	// Starting is told of each program before its session starts; nil: not needed.
	Starting func(context.Context, proc.Identity) error
	// Renumbered returns the GPUs whose numbers a program knows otherwise than this machine, because
	// it is of a restored tree; nil: there are none.
	Renumbered func(proc.Identity) map[int]int
	// Watchers are phosd's goroutines that outlive a request. Close waits for them.
	Watchers *sync.WaitGroup
}

// Sessions starts, finds and ends sessions.
type Sessions struct {
	options  Options
	dir      *rundir.Dir
	devices  *devices.Devices
	metrics  *metrics.Metrics
	log      *slog.Logger
	life     context.Context //nolint:containedctx // phosd's own life, not a request's
	registry *registry
	pool     *standby.Pool    // nil before StartStandby
	exits    *exitwatch.Watch // nil where the kernel reports ends by pidfds only
	revoked  revoked
	// lost has a *LostError of each program that runs without its worker, by its proc.Identity.
	lost sync.Map
	// records is held while a session's record is replaced or removed.
	records  sync.Mutex
	watchers *sync.WaitGroup
}

// New returns Sessions without sessions; see Adopt.
func New(options Options) *Sessions {
	return &Sessions{
		options: options, dir: options.Dir, devices: options.Devices, metrics: options.Metrics, log: options.Log,
		life: options.Life, watchers: options.Watchers, registry: newRegistry(options.Config.Sessions.Total, options.Quota),
	}
}

// Close ends standby workers and stops watching sessions, whose workers go on. Options.Life must
// have ended.
func (m *Sessions) Close() error {
	var failures []error
	if m.pool != nil {
		failures = append(failures, m.pool.Close())
	}
	for _, s := range m.registry.all() {
		s.detach()
	}
	m.watchers.Wait()
	if m.exits != nil {
		failures = append(failures, m.exits.Close())
	}
	m.revoked.close()
	return errors.Join(failures...)
}

// All lists the sessions in the order of their numbers.
func (m *Sessions) All() []*Session { return m.registry.all() }

// Running lists the sessions whose programs have not ended. A program that has just ended keeps its
// session until its worker has ended too, and its user may already have seen it end.
func (m *Sessions) Running() []*Session {
	return slices.DeleteFunc(m.All(), func(s *Session) bool { return s.program.Ended() })
}

// Of lists the sessions of one process: more than one only while a program that called exec starts
// its next session.
func (m *Sessions) Of(program proc.Identity) []*Session {
	return slices.DeleteFunc(m.All(), func(s *Session) bool { return s.record.Program != program })
}

// Below lists the sessions of processes and of their descendants. A process that has ended has
// none, even if another one has its pid now.
func (m *Sessions) Below(roots []proc.Identity) (found []*Session) {
	for _, s := range m.All() {
		if slices.ContainsFunc(roots, s.isBelow) {
			found = append(found, s)
		}
	}
	return found
}

// isBelow reports whether the program is root or one of its descendants.
func (s *Session) isBelow(root proc.Identity) bool {
	return proc.Descends(s.record.Program.PID, root.PID) && !root.Gone()
}

// BelowFor lists the sessions of a process and of its descendants. It fails if one of them is not
// the caller's, or if there are none. Of another user's process it does not tell which.
func (m *Sessions) BelowFor(caller api.Caller, root proc.Identity) ([]*Session, error) {
	if owner, err := root.UID(); err == nil && !caller.CanAccess(owner) {
		return nil, ErrNotOwned(root.PID)
	}
	found := m.Below([]proc.Identity{root})
	for _, s := range found {
		if !caller.CanAccess(s.record.Owner.UID) {
			return nil, ErrNotOwned(s.record.Program.PID)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: pid %d uses no GPU through phosd", api.ErrNoProgram, root.PID)
	}
	return found, nil
}

// ErrNotOwned is the error for a process of another user.
func ErrNotOwned(pid int) error {
	return fmt.Errorf("%w: pid %d is another user's; ask as that user, or as root", api.ErrNotPermitted, pid)
}

// Count returns the number of sessions.
func (m *Sessions) Count() int { return m.registry.count() }

// Refuse refuses every later program, until Accept is called.
func (m *Sessions) Refuse() { m.registry.setClosed(true) }

// Accept undoes Refuse.
func (m *Sessions) Accept() { m.registry.setClosed(false) }

// EndAll ends all sessions and waits for that.
func (m *Sessions) EndAll(ctx context.Context, reason string) {
	var ending sync.WaitGroup
	for _, s := range m.All() {
		ending.Go(func() { s.end(ctx, reason) })
	}
	ending.Wait()
}

// Standby returns how many standby workers are ready, and how much memory they hold of each GPU.
func (m *Sessions) Standby() (count int, bytes []uint64) { return m.pool.Ready() }

// Holders implements devices.Sessions.
func (m *Sessions) Holders() []devices.Holder {
	all := m.All()
	holders := make([]devices.Holder, len(all))
	for i, s := range all {
		holders[i] = devices.Holder{
			Session: s.record.Session, Slot: s.slot.number, Owner: s.record.Owner.UID,
			Program: s.record.Program, WorkerPID: s.record.Worker.PID,
		}
	}
	return holders
}
