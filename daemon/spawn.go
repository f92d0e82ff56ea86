package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/daemon/worker"
)

// spawn starts the worker of a session. It waits for its configuration until the record is written, so that a phosd
// that dies in between leaves no worker that the next one does not know.
func (d *Daemon) spawn(s *session, conn *net.UnixConn) error {
	files, err := d.openFor(s, conn)
	defer closeAll(files.all)
	if err != nil {
		return err
	}
	groups, err := s.program.Groups()
	if err != nil {
		return err
	}
	command := d.command(s, files.inherited)
	if err := command.Start(); err != nil {
		return err
	}
	s.reap = command.Wait
	if err := d.brief(s, command.Process.Pid, d.workerConfig(s, groups), files.config); err != nil {
		return errors.Join(err, command.Process.Kill(), s.reap())
	}
	return nil
}

// brief tells a worker that has been started what it is for.
func (d *Daemon) brief(s *session, pid int, config worker.Config, pipe *os.File) (err error) {
	if s.worker, err = process.OpenPID(pid); err != nil {
		return err
	}
	s.record.Worker = s.worker.Identity
	if s.record.Executable, err = s.worker.Executable(); err != nil {
		return err
	}
	if s.control, err = rpc.DialWorker(d.dir.Control(s.record.Session)); err != nil {
		return err
	}
	if err := d.dir.Save(s.record); err != nil {
		return err
	}
	return json.NewEncoder(pipe).Encode(config)
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

// command is the worker's process, in a session of its own, so that a signal from phosd's terminal does not reach it, and
// with nothing of phosd's environment but what a GPU driver needs. It starts as root and becomes the program's user itself: started as that user, it
// could be looked into, and robbed of its descriptors, until it forbids that.
func (d *Daemon) command(s *session, inherited []*os.File) *exec.Cmd {
	command := exec.Command(d.options.Worker[0], d.options.Worker[1:]...)
	// For whoever looks at a list of processes.
	command.Args[0] = "phosd"
	command.Args = append(command.Args, filepath.Dir(d.dir.Paths(s.record.Session).Session))
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

// workerFiles are what a worker inherits, and phosd's end of the pipe with its configuration.
type workerFiles struct {
	inherited []*os.File
	config    *os.File
	// all are to be closed here once the worker has them.
	all []*os.File
}

func (d *Daemon) openFor(s *session, conn *net.UnixConn) (files workerFiles, err error) {
	program, err := conn.File()
	if err != nil {
		return files, err
	}
	files.all = append(files.all, program)
	control, err := controlSocket(d.dir.Control(s.record.Session))
	if err != nil {
		return files, err
	}
	files.all = append(files.all, control)
	read, write, err := os.Pipe()
	if err != nil {
		return files, err
	}
	files.all = append(files.all, read, write)
	files.config = write
	// In the order of worker.ProgramFD and the following.
	files.inherited = []*os.File{program, control, d.ledger.File(), read, s.program.File()}
	return files, nil
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
