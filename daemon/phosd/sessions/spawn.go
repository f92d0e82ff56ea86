package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// spawn gives the session of a new program its worker.
func (m *Sessions) spawn(s *Session, conn *net.UnixConn) error {
	program, err := conn.File()
	if err != nil {
		return err
	}
	defer program.Close()
	return m.assignWorker(s, m.workerConfig(s), program, s.program.File())
}

// assignWorker gives the session a standby worker, or starts one. first and rest are the files that
// it works with: boot.ProgramFD and boot.PidfdFD, or boot.LifeFD and boot.PacksFD.
func (m *Sessions) assignWorker(s *Session, config boot.Config, first *os.File, rest ...*os.File) error {
	control, err := listenControl(m.dir.Control(s.record.Session))
	if err != nil {
		return err
	}
	defer control.Close()
	if worker := s.slot.standby; worker != nil && len(rest) < fdpass.MaxFiles-1 {
		s.slot.standby = nil
		err := m.configure(s, worker.PID(), func() error {
			return worker.Assign(config, append([]*os.File{first, control}, rest...)...)
		})
		if err == nil {
			s.reap = sync.OnceValue(worker.Reap)
			return nil
		}
		worker.End()
		m.devices.Ledger().Clear(s.slot.number)
		m.log.Warn("standby worker not usable; starting another", "session", s.record.Session, "error", err)
	}
	return m.startWorker(s, config, []*os.File{first, control, m.devices.Ledger().File()}, rest)
}

// startWorker starts a new worker. It gets its configuration only once the record is written: if
// phosd dies in between, no worker is left that the next phosd does not know.
func (m *Sessions) startWorker(s *Session, config boot.Config, before, rest []*os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fdpass.Close([]*os.File{read, write})
	command := m.command(
		filepath.Dir(m.dir.Paths(s.record.Session).Session),
		slices.Concat(before, []*os.File{read}, rest),
	)
	if err := proc.StartConfined(command); err != nil {
		return err
	}
	s.reap = sync.OnceValue(command.Wait)
	err = m.configure(s, command.Process.Pid, func() error { return json.NewEncoder(write).Encode(config) })
	if err != nil {
		return errors.Join(err, command.Process.Kill(), s.reap())
	}
	return nil
}

// configure records which worker the session has, and then sends the worker its configuration.
func (m *Sessions) configure(s *Session, pid int, send func() error) (err error) {
	if s.worker, err = proc.OpenPID(pid); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeWorker())
		}
	}()
	s.record.Worker = s.worker.Identity
	if s.record.Executable, err = s.worker.Executable(); err != nil {
		return err
	}
	s.controlPath = m.dir.Control(s.record.Session)
	if s.control, err = api.DialWorker(s.controlPath); err != nil {
		return err
	}
	if err := m.dir.Save(s.record); err != nil {
		return err
	}
	if s.program == nil { // a restored program, which does not run yet
		return send()
	}
	m.registry.start(s)
	if err := send(); err != nil {
		m.registry.notStarted(s)
		return err
	}
	return nil
}

// closeWorker closes the handles of a worker that does not get the session.
func (s *Session) closeWorker() error {
	err := s.worker.Close()
	if s.control != nil {
		err = errors.Join(err, s.control.Close())
	}
	s.worker, s.control = nil, nil
	return err
}

// workerConfig returns the settings that start a session's worker.
func (m *Sessions) workerConfig(s *Session) boot.Config {
	settings, paths := m.options.Config, m.dir.Paths(s.record.Session)
	return boot.Config{
		Session:      s.record.Session,
		Program:      s.record.Program,
		UID:          s.record.Owner.UID,
		GID:          s.record.Owner.GID,
		Groups:       s.record.Groups,
		Gpus:         settings.Gpus.Offer,
		SessionPath:  paths.Session,
		ArenaPath:    paths.Arena,
		ArenaBytes:   s.record.ArenaBytes,
		SharingDir:   m.dir.Sharing(s.record.Owner.UID),
		LedgerSlot:   s.slot.number,
		StartSeconds: settings.Sessions.StartSeconds,
		Log:          settings.Log,
		Renumbered:   s.renumbered,
	}
}

// command returns the worker's process. It runs in a process session of its own, so that a signal
// from phosd's terminal does not reach it, and has nothing of phosd's environment but what a GPU
// driver needs. It starts as root and becomes the program's user itself: started as that user,
// other processes of the user could trace it and take its descriptors before it forbids that.
func (m *Sessions) command(title string, inherited []*os.File) *exec.Cmd {
	command := exec.Command(m.options.Worker[0], m.options.Worker[1:]...)
	// The title is for lists of processes, as of ps.
	command.Args[0] = "phosd"
	command.Args = append(command.Args, title)
	command.Env = append([]string{"PATH=/usr/bin:/bin"}, m.options.Environment...)
	command.Dir = "/"
	command.Stderr = m.options.WorkerLog
	command.ExtraFiles = inherited
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if m.options.Guard != nil {
		m.options.Guard.Enter(command)
	}
	return command
}

// StartStandby begins to start standby workers. Call it before Start and Restore.
func (m *Sessions) StartStandby() {
	settings := m.options.Config
	m.pool = standby.New(standby.Options{
		Size: settings.Workers.Standby, Reserve: m.registry.reserveStandby, Log: m.log,
		Command: func(far *os.File) *exec.Cmd {
			command := m.command(m.dir.StandbyTitle(), []*os.File{far})
			command.Args = slices.Insert(command.Args, len(command.Args)-1, boot.StandbyArgument)
			return command
		},
		Release: func(slot int) {
			m.devices.Ledger().Clear(slot)
			m.registry.releaseStandby(slot)
		},
		Setup: func(slot int) (any, []*os.File) {
			return boot.Standby{
				Gpus: settings.Gpus.Offer, LedgerSlot: slot, MemoryBytes: uint64(settings.Workers.Memory), Log: settings.Log,
			}, []*os.File{m.devices.Ledger().File()}
		},
	})
}

// listenControl makes the worker's socket. Only root can reach it: its directory is root's.
func listenControl(path string) (*os.File, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	return file, errors.Join(err, listener.Close())
}
