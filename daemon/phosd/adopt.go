package phosd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// adopt takes over the workers that a former phosd left running, sweeps away what is left of dead
// ones, and opens the ledger: the old one when any of them still accounts in it.
func (d *Daemon) adopt() error {
	ids, err := d.dir.Sessions()
	if err != nil {
		return err
	}
	var found []*session
	for _, id := range ids {
		s, err := d.find(id)
		if proc.Unknown(err) { // the program may be there, for the next phosd to find
			for _, s := range found {
				s.abandon()
			}
			return fmt.Errorf("adopt session %d: %w", id, err)
		}
		if err != nil {
			d.log.Info("swept stale session", "session", id, "why", err)
			if err := errors.Join(d.dir.MarkDead(id), d.dir.Remove(id)); err != nil {
				d.log.Error("sweep", "session", id, "error", err)
			}
			continue
		}
		found = append(found, s)
	}
	if err := d.openLedger(found); err != nil {
		for _, s := range found {
			s.abandon()
		}
		return err
	}
	for _, s := range found {
		if d.options.Guard != nil {
			if err := d.options.Guard.Admit(s.record.Worker.PID); err != nil {
				d.log.Error("adopt", "session", s.record.Session, "error", err)
			}
		}
		d.log.Info("adopted", "session", s.record.Session, "pid", s.record.Program.PID, "worker", s.record.Worker.PID)
		d.watch(s)
		d.lend(s)
	}
	return nil
}

// sweepTime is how long a start may take for what a killed phosd has left.
const sweepTime = 30 * time.Second

// sweep takes back the checkpoints and restores that a former phosd was in the middle of: frozen
// programs go on, trees that were not complete end. It comes before adopt, which then finds what is
// left. It fails where it cannot look: what it leaves out nobody would take back before the next
// start.
func (d *Daemon) sweep() error {
	if d.options.CPU == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	err := d.options.CPU.Sweep(ctx)
	if proc.Unknown(err) {
		return fmt.Errorf("sweep: %w", err)
	}
	if err != nil {
		d.log.Error("sweep", "error", err)
	}
	keepers, err := d.dir.Keepers()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, path := range keepers {
		processes, err := d.trees.Adopt(ctx, path)
		if proc.Unknown(err) {
			return fmt.Errorf("adopt a restored tree at %s: %w", path, err)
		}
		if errors.Is(err, proc.ErrGone) {
			d.log.Info("swept the keeper of a tree that has ended", "path", path)
			continue
		}
		if err != nil {
			d.log.Error("adopt a restored tree", "path", path, "error", err)
			continue
		}
		d.log.Info("adopted a restored tree", "path", path, "processes", processes)
	}
	return nil
}

// find makes a session of a record, if its worker is still the process that the record means.
func (d *Daemon) find(id uint64) (_ *session, err error) {
	record, err := d.dir.Load(id)
	if err != nil {
		return nil, err
	}
	s := &session{record: record, gone: make(chan struct{}), abandoned: make(chan struct{})}
	if record.Checkpoint != nil {
		s.noted.Store(record.Checkpoint)
	}
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
		// Its worker is about to notice; it must not keep its ledger slot if it does not.
		return nil, errors.Join(fmt.Errorf("program: %w", err), s.worker.Signal(unix.SIGKILL))
	}
	if s.control, err = api.DialWorker(d.dir.Control(id)); err != nil {
		return nil, errors.Join(err, s.program.Close())
	}
	if s.ticket, err = d.table.claim(record.Owner.UID, record.Ledger); err != nil {
		return nil, errors.Join(err, s.program.Close(), s.control.Close())
	}
	return s, nil
}

// openLedger continues the accounting of adopted sessions, or begins a new one.
func (d *Daemon) openLedger(adopted []*session) (err error) {
	if len(adopted) == 0 {
		capacities := make([]uint64, len(d.gpus))
		for i, gpu := range d.gpus {
			capacities[i] = gpu.MemoryBytes
		}
		d.ledger, err = ledger.Create(d.dir.Ledger(), capacities)
		return err
	}
	for _, s := range adopted {
		if s.record.Gpus != d.options.Config.Gpus.Offer {
			return fmt.Errorf("%w: pid %d uses GPUs %q; phosd must be started with these, or that program ended first",
				api.ErrProgramsRunning, s.record.Program.PID, s.record.Gpus)
		}
	}
	file, err := os.OpenFile(d.dir.Ledger(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	if d.ledger, err = ledger.Open(file); err != nil {
		return errors.Join(err, file.Close())
	}
	d.clearUnused(adopted)
	return nil
}

// clearUnused empties the slots whose workers died while no phosd looked.
func (d *Daemon) clearUnused(adopted []*session) {
	var used [ledger.Slots]bool
	for _, s := range adopted {
		used[s.ticket.slot] = true
	}
	for slot := range used {
		if !used[slot] {
			d.ledger.Clear(slot)
		}
	}
}
