package sessions

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/internal/linux/exitwatch"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Adopt takes over the workers that the phosd before left running, removes what is left of dead
// ones, and opens the ledger: the old one if any of the workers still accounts in it. Call it once,
// before anything else.
func (m *Sessions) Adopt() (err error) {
	if m.exits, err = exitwatch.Open(); err != nil {
		m.log.Debug("early exit watch not available", "error", err)
		m.exits = nil
	}
	ids, err := m.dir.Sessions()
	if err != nil {
		return err
	}
	var found []*Session
	defer func() {
		if err != nil {
			for _, s := range found {
				s.detach()
			}
		}
	}()
	for _, id := range ids {
		s, err := m.load(id)
		if proc.Unknown(err) { // the program may be running, so the next phosd must find its session
			return fmt.Errorf("adopt session %d: %w", id, err)
		}
		if err != nil {
			m.log.Info("stale session removed", "session", id, "why", err)
			if err := errors.Join(m.dir.MarkDead(id), m.dir.Remove(id)); err != nil {
				m.log.Error("remove stale session", "session", id, "error", err)
			}
			continue
		}
		found = append(found, s)
	}
	if err := m.openLedger(found); err != nil {
		return err
	}
	var ends sync.WaitGroup
	defer ends.Wait() // before a checkpoint begins to track
	for _, s := range found {
		if m.options.Guard != nil {
			if err := m.options.Guard.Allow(s.record.Worker.PID); err != nil {
				m.log.Error("allow adopted worker the GPUs", "session", s.record.Session, "error", err)
			}
		}
		m.log.Info(
			"session adopted",
			"session", s.record.Session, "pid", s.record.Program.PID, "worker", s.record.Worker.PID,
		)
		m.watch(s)
		m.lend(s)
		ends.Go(s.endTracking)
	}
	return nil
}

// load makes a session of a record, if its worker is still the recorded process.
func (m *Sessions) load(id uint64) (_ *Session, err error) {
	record, err := m.dir.Load(id)
	if err != nil {
		return nil, err
	}
	s := newSession(m.dir, record, slot{})
	s.checkpoint.Store(record.Checkpoint)
	if s.worker, err = proc.Open(record.Worker); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.worker.Close())
		}
	}()
	executable, err := s.worker.Executable()
	if err != nil || executable != record.Executable {
		return nil, fmt.Errorf("worker: pid %d runs %s, not %s (%w)", record.Worker.PID, executable, record.Executable, err)
	}
	if s.program, err = proc.Open(record.Program); proc.Unknown(err) {
		return nil, fmt.Errorf("program: %w", err)
	}
	if err != nil {
		// The worker is about to notice. If it does not, it must not keep its ledger slot.
		return nil, errors.Join(fmt.Errorf("program: %w", err), s.worker.Signal(unix.SIGKILL))
	}
	s.controlPath = m.dir.Control(id)
	if s.control, err = api.DialWorker(s.controlPath); err != nil {
		return nil, errors.Join(err, s.program.Close())
	}
	if s.slot, err = m.registry.reserveAdopted(record.Owner.UID, record.Ledger); err != nil {
		return nil, errors.Join(err, s.program.Close(), s.control.Close())
	}
	s.slot.program.By(record.Program)
	return s, nil
}

// openLedger continues the accounting of adopted sessions, or begins a new one.
func (m *Sessions) openLedger(adopted []*Session) error {
	for _, s := range adopted {
		if s.record.Gpus != m.options.Config.Gpus.Offer {
			return fmt.Errorf("%w: pid %d uses GPUs %q; start phosd with these, or end that program first",
				api.ErrProgramsRunning, s.record.Program.PID, s.record.Gpus)
		}
	}
	if err := m.devices.OpenLedger(m.dir.Ledger(), len(adopted) > 0); err != nil {
		return err
	}
	users := m.options.Config.Users
	m.devices.Ledger().SetLimits(uint64(users.DeviceMemory), uint64(users.PinnedMemory))
	if len(adopted) == 0 {
		return nil
	}
	// Workers may have died while no phosd ran.
	var used [ledger.Slots]bool
	for _, s := range adopted {
		used[s.slot.number] = true
	}
	for _, s := range adopted {
		m.devices.Ledger().SetTenant(s.slot.number, s.slot.tenant)
	}
	for number := range used {
		if !used[number] {
			m.devices.Ledger().Clear(number)
		}
	}
	return nil
}
