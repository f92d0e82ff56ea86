package phosd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// spawn gives a session that a program has asked for its worker.
func (d *Daemon) spawn(s *session, conn *net.UnixConn) error {
	program, err := conn.File()
	if err != nil {
		return err
	}
	defer program.Close()
	groups, err := s.program.Groups()
	if err != nil {
		return err
	}
	return d.man(s, d.workerConfig(s, groups), program, s.program.File())
}

// man gives a session its worker: the one that has waited for it, or a new one. What it works with
// are first and rest, in the order of worker.ProgramFD and worker.PidfdFD, or of worker.LifeFD and
// worker.PacksFD.
func (d *Daemon) man(s *session, config worker.Config, first *os.File, rest ...*os.File) error {
	control, err := controlSocket(d.dir.Control(s.record.Session))
	if err != nil {
		return err
	}
	defer control.Close()
	if waiting := s.ticket.waiting; waiting != nil && len(rest) < fdpass.MostFiles-1 {
		s.ticket.waiting = nil
		err := d.brief(s, waiting.PID(), func() error {
			return waiting.Assign(config, append([]*os.File{first, control}, rest...)...)
		})
		if err == nil {
			s.reap = waiting.Reap
			return nil
		}
		waiting.End()
		d.ledger.Clear(s.ticket.slot)
		d.log.Warn(
			"a worker that has waited cannot be used; a new one is started",
			"session",
			s.record.Session,
			"error",
			err,
		)
	}
	return d.manAnew(s, config, []*os.File{first, control, d.ledger.File()}, rest)
}

// manAnew starts a new worker. It waits for its configuration until the record is written, so that
// a phosd that dies in between leaves no worker that the next one does not know.
func (d *Daemon) manAnew(s *session, config worker.Config, before, rest []*os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer closeAll([]*os.File{read, write})
	command := d.command(
		filepath.Dir(d.dir.Paths(s.record.Session).Session),
		slices.Concat(before, []*os.File{read}, rest),
	)
	if err := proc.StartConfined(command); err != nil {
		return err
	}
	s.reap = command.Wait
	err = d.brief(s, command.Process.Pid, func() error { return json.NewEncoder(write).Encode(config) })
	if err != nil {
		return errors.Join(err, command.Process.Kill(), s.reap())
	}
	return nil
}

// brief writes down which worker a session has, and then lets it know.
func (d *Daemon) brief(s *session, pid int, tell func() error) (err error) {
	if s.worker, err = proc.OpenPID(pid); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.forgetWorker())
		}
	}()
	s.record.Worker = s.worker.Identity
	if s.record.Executable, err = s.worker.Executable(); err != nil {
		return err
	}
	if s.control, err = api.DialWorker(d.dir.Control(s.record.Session)); err != nil {
		return err
	}
	if err := d.dir.Save(s.record); err != nil {
		return err
	}
	return tell()
}

// forgetWorker closes what leads to a worker that does not get the session.
func (s *session) forgetWorker() error {
	err := s.worker.Close()
	if s.control != nil {
		err = errors.Join(err, s.control.Close())
	}
	s.worker, s.control = nil, nil
	return err
}

func (d *Daemon) workerConfig(s *session, groups []uint32) worker.Config {
	settings, paths := d.options.Config, d.dir.Paths(s.record.Session)
	return worker.Config{
		Session:      s.record.Session,
		Program:      s.record.Program,
		UID:          s.record.Owner.UID,
		GID:          s.record.Owner.GID,
		Groups:       groups,
		Gpus:         settings.Gpus.Offer,
		SessionPath:  paths.Session,
		ArenaPath:    paths.Arena,
		ArenaBytes:   uint64(settings.Sessions.ArenaSize),
		LedgerSlot:   s.ticket.slot,
		StartSeconds: settings.Sessions.StartSeconds,
		Log:          settings.Log,
	}
}

// command is the worker's process, in a session of its own, so that a signal from phosd's terminal
// does not reach it, and with nothing of phosd's environment but what a GPU driver needs. It starts
// as root and becomes the program's user itself: started as that user, it could be looked into, and
// robbed of its descriptors, until it forbids that.
func (d *Daemon) command(name string, inherited []*os.File) *exec.Cmd {
	command := exec.Command(d.options.Worker[0], d.options.Worker[1:]...)
	// For whoever looks at a list of processes.
	command.Args[0] = "phosd"
	command.Args = append(command.Args, name)
	command.Env = append([]string{"PATH=/usr/bin:/bin"}, d.options.Environment...)
	command.Dir = "/"
	command.Stderr = d.options.WorkerLog
	command.ExtraFiles = inherited
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if d.options.Guard != nil {
		d.options.Guard.Enter(command)
	}
	return command
}

// waiter is the process of a worker that waits.
func (d *Daemon) waiter(far *os.File) *exec.Cmd {
	command := d.command(d.dir.Waiting(), []*os.File{far})
	command.Args = slices.Insert(command.Args, len(command.Args)-1, worker.StandbyArgument)
	return command
}

// openPool begins to fill the pool of workers that wait.
func (d *Daemon) openPool() {
	settings := d.options.Config
	d.pool = standby.New(standby.Options{
		Want: settings.Workers.Warm, Command: d.waiter, Seat: d.table.seat, Log: d.log,
		Leave: func(slot int) {
			d.ledger.Clear(slot)
			d.table.leave(slot)
		},
		Order: func(slot int) (any, []*os.File) {
			return worker.Preparation{
				Gpus: settings.Gpus.Offer, LedgerSlot: slot, MemoryBytes: uint64(settings.Workers.Memory), Log: settings.Log,
			}, []*os.File{d.ledger.File()}
		},
	})
}

// controlSocket listens where only root gets to: its directory is root's.
func controlSocket(path string) (*os.File, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	return file, errors.Join(err, listener.Close())
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
