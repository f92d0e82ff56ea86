package phosd

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// service answers the requests of daemon/api/daemon.proto.
type service struct {
	api.UnimplementedDaemonServer
	daemon *Daemon
}

// Version needs no rights.
func (s *service) Version(context.Context, *api.VersionRequest) (*api.VersionReply, error) {
	return &api.VersionReply{Version: api.Version, Wire: wire.Version}, nil
}

// Status shows the GPUs, whose memory is accounted over all users, and the caller's programs.
func (s *service) Status(ctx context.Context, _ *api.StatusRequest) (*api.StatusReply, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.daemon.status(ctx, caller), nil
}

// Stop ends phosd.
func (s *service) Stop(ctx context.Context, request *api.StopRequest) (*api.StopReply, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.RequireRootHere("stop phosd"); err != nil {
		return nil, err
	}
	if !request.GetDrain() {
		return s.daemon.endAll(ctx, request.GetForce())
	}
	var base *os.File
	if len(request.GetFiles()) > 0 {
		files, err := s.daemon.takeFiles(request.GetFiles(), caller)
		if err != nil {
			return nil, err
		}
		defer fdpass.Close(files)
		if err := archive.CheckDirectory(files[0]); err != nil {
			return nil, err
		}
		base = files[0]
	}
	return s.daemon.drainAndEnd(ctx, base, request.GetForce())
}

// drainAndEnd saves and stops all programs, and then phosd. With force, phosd ends although some
// programs could not be saved.
func (d *Daemon) drainAndEnd(ctx context.Context, base *os.File, force bool) (*api.StopReply, error) {
	d.sessions.Refuse()
	drained, err := d.checkpoints.Drain(ctx, base)
	if err != nil {
		d.sessions.Accept()
	}
	reply := &api.StopReply{}
	var pids []int
	for _, s := range drained {
		reply.Drained = append(reply.Drained, d.describeProgram(ctx, api.Caller{}, s))
		pids = append(pids, s.PID())
	}
	if err != nil && (!force || ctx.Err() != nil) {
		if len(pids) > 0 {
			err = fmt.Errorf("%w (saved and stopped: pid %v)", err, pids)
		}
		return nil, fmt.Errorf("phosd goes on: %w", err)
	}
	ended, err := d.endAll(ctx, force)
	if err != nil {
		return nil, err
	}
	reply.Ended = ended.Ended
	return reply, nil
}

// endAll stops phosd if no program runs. With force, it ends the programs' sessions first.
func (d *Daemon) endAll(ctx context.Context, force bool) (*api.StopReply, error) {
	running := d.sessions.Running()
	if len(running) > 0 && !force {
		return nil, fmt.Errorf("%w: %d, the first is pid %d (%s); --force ends their sessions",
			api.ErrProgramsRunning, len(running), running[0].PID(), running[0].Record().Command)
	}
	d.sessions.Refuse()
	reply := &api.StopReply{}
	for _, s := range d.sessions.Running() {
		record := s.Record()
		reply.Ended = append(reply.Ended, &api.Program{
			Session: record.Session, Pid: uint32(record.Program.PID),
			Uid: record.Owner.UID, User: account.Name(record.Owner.UID), Command: record.Command,
		})
	}
	d.sessions.EndAll(ctx, "phosd is being stopped")
	d.stop()
	return reply, nil
}

// TraceResource starts or stops the traces of a program and of its descendants.
func (s *service) TraceResource(ctx context.Context, request *api.TraceResourceRequest) (*api.TraceReply, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	root, err := caller.HostProcess(request.GetPid())
	if err != nil {
		return nil, err
	}
	traced, err := s.daemon.sessions.BelowFor(caller, root)
	if err != nil {
		return nil, err
	}
	if !request.GetStart() {
		return sessions.StopTraces(ctx, traced)
	}
	counted, err := s.daemon.track(caller, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer counted.done()
	files, err := counted.take(request.GetFiles())
	if err != nil {
		return nil, err
	}
	if err := archive.CheckDirectory(files[0]); err != nil {
		return nil, err
	}
	return s.daemon.sessions.StartTraces(ctx, traced, files[0], archive.RightsOf(caller))
}

// Keys exports, imports and removes keys.
func (s *service) Keys(ctx context.Context, request *api.KeysRequest) (*api.KeysReply, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.RequireRootHere("see and change keys"); err != nil {
		return nil, err
	}
	state, reply := s.daemon.state, &api.KeysReply{}
	switch act := request.GetAct().(type) {
	case *api.KeysRequest_Export:
		key := state.Key()
		reply.Key = key[:]
	case *api.KeysRequest_Import:
		err = state.Import(act.Import.GetName(), act.Import.GetKey())
		s.daemon.log.Info("key imported", "name", act.Import.GetName(), "error", err)
	case *api.KeysRequest_Remove:
		err = state.RemoveKey(act.Remove)
		s.daemon.log.Info("key removed", "name", act.Remove, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	reply.Names, err = state.Names()
	return reply, err
}

// takeFiles returns the files that the caller has handed off under a token. The caller has opened
// them itself, so phosd opens no path for it.
func (d *Daemon) takeFiles(token []byte, caller api.Caller) ([]*os.File, error) {
	files, err := d.tokens.Take(token, caller)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: the request names no file", api.ErrInvalid)
	}
	return files, nil
}

// receiveFirst returns the caller and the first command of a stream.
func receiveFirst[Command, Event any](
	stream grpc.BidiStreamingServer[Command, Event],
) (caller api.Caller, first *Command, err error) {
	if caller, err = api.CallerOf(stream.Context()); err != nil {
		return caller, nil, err
	}
	if err := caller.CheckVisible(); err != nil {
		return caller, nil, err
	}
	first, err = stream.Recv()
	return caller, first, err
}
