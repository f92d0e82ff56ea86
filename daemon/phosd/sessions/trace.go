package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// StartTraces starts the traces of all the given sessions, or of none. The files are made in a
// directory, with the given rights.
func (m *Sessions) StartTraces(
	ctx context.Context,
	all []*Session,
	directory *os.File,
	as fsuid.Rights,
) (*api.TraceReply, error) {
	reply := &api.TraceReply{}
	for _, s := range all {
		name, err := m.startTrace(ctx, s, directory, as)
		if err != nil {
			_, undone := StopTraces(ctx, all[:len(reply.Names)])
			return nil, errors.Join(err, undone)
		}
		reply.Names = append(reply.Names, name)
	}
	return reply, nil
}

// startTrace makes the file and hands it off to the worker.
func (m *Sessions) startTrace(
	ctx context.Context,
	s *Session,
	directory *os.File,
	as fsuid.Rights,
) (name string, err error) {
	name = fmt.Sprintf("trace-%d-%s.jsonl", s.PID(), time.Now().UTC().Format("20060102T150405.000"))
	var file *os.File
	err = as.Do(func() error {
		fd, err := unix.Openat(
			int(directory.Fd()),
			name,
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			0o600,
		)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return "", err
	}
	defer file.Close()
	token, err := fdtoken.Send(ctx, s.controlPath, []*os.File{file})
	if err == nil {
		_, err = s.Worker().Trace(ctx, &api.TraceRequest{Start: true, Files: token})
	}
	if err != nil {
		_ = as.Do(func() error { return unix.Unlinkat(int(directory.Fd()), name, 0) })
		return "", fmt.Errorf("trace pid %d: %w", s.PID(), s.Explain(err))
	}
	m.log.Info("trace started", "session", s.record.Session, "pid", s.PID(), "file", name)
	return name, nil
}

// StopTraces stops the traces of those of the sessions that have one. It fails if none has.
func StopTraces(ctx context.Context, all []*Session) (*api.TraceReply, error) {
	reply, stopped := &api.TraceReply{}, 0
	var failures []error
	for _, s := range all {
		one, err := s.Worker().Trace(ctx, &api.TraceRequest{})
		if err != nil {
			failures = append(failures, fmt.Errorf("pid %d: %w", s.PID(), s.Explain(err)))
			continue
		}
		stopped++
		reply.Calls += one.GetCalls()
		if one.GetError() != "" {
			reply.Error = one.GetError()
		}
	}
	if stopped == 0 {
		return nil, errors.Join(failures...)
	}
	return reply, nil
}
