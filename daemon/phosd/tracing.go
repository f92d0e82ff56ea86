package phosd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TraceResource begins or ends the traces of a program and of those that it has started.
func (s *service) TraceResource(ctx context.Context, request *api.TraceResourceRequest) (*api.TraceReply, error) {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	pid, err := actor.Means(request.GetPid())
	if err != nil {
		return nil, err
	}
	sessions, err := s.daemon.sessionsBelow(int(pid), actor)
	if err != nil {
		return nil, err
	}
	if !request.GetStart() {
		return endTraces(ctx, sessions)
	}
	files, err := s.daemon.takeFiles(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if err := archive.CheckDirectory(files[0]); err != nil {
		return nil, err
	}
	reply := &api.TraceReply{}
	for _, each := range sessions {
		name, err := s.daemon.beginTrace(ctx, each, files[0], archive.RightsOf(actor))
		if err != nil {
			// All of the tree, or nothing.
			_, undone := endTraces(ctx, sessions[:len(reply.Names)])
			return nil, errors.Join(err, undone)
		}
		reply.Names = append(reply.Names, name)
	}
	return reply, nil
}

// sessionsBelow are those of a process and of its descendants, which must all be the caller's.
func (d *Daemon) sessionsBelow(pid int, actor api.Actor) ([]*session, error) {
	var found []*session
	for _, s := range d.table.all() {
		if !proc.Descends(s.record.Program.PID, pid) {
			continue
		}
		if !actor.May(s.record.Owner.UID) {
			return nil, notYours(s.record.Program.PID)
		}
		found = append(found, s)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: pid %d uses no GPU through phosd", api.ErrNoProgram, pid)
	}
	return found, nil
}

// beginTrace makes the file, with the caller's rights, and gives it to the worker.
func (d *Daemon) beginTrace(
	ctx context.Context,
	s *session,
	directory *os.File,
	as fsuid.Rights,
) (name string, err error) {
	name = fmt.Sprintf("trace-%d-%s.jsonl", s.record.Program.PID, time.Now().UTC().Format("20060102T150405.000"))
	var file *os.File
	err = as.Do(func() error {
		fd, err := unix.Openat(
			int(directory.Fd()),
			name,
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			0o600,
		)
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return "", err
	}
	defer file.Close()
	token, err := fdtoken.Send(ctx, d.dir.Control(s.record.Session), []*os.File{file})
	if err == nil {
		_, err = s.control.Worker.Trace(ctx, &api.TraceRequest{Start: true, Files: token})
	}
	if err != nil {
		_ = as.Do(func() error { return unix.Unlinkat(int(directory.Fd()), name, 0) })
		return "", fmt.Errorf("trace pid %d: %w", s.record.Program.PID, err)
	}
	d.log.Info("trace begins", "session", s.record.Session, "pid", s.record.Program.PID, "file", name)
	return name, nil
}

// endTraces ends those that there are; that there are none is an error.
func endTraces(ctx context.Context, sessions []*session) (*api.TraceReply, error) {
	reply, ended := &api.TraceReply{}, 0
	var failures []error
	for _, s := range sessions {
		one, err := s.control.Worker.Trace(ctx, &api.TraceRequest{})
		if err != nil {
			failures = append(failures, fmt.Errorf("pid %d: %w", s.record.Program.PID, err))
			continue
		}
		ended++
		reply.Calls += one.GetCalls()
		if one.GetError() != "" {
			reply.Error = one.GetError()
		}
	}
	if ended == 0 {
		return nil, errors.Join(failures...)
	}
	return reply, nil
}
