package phosd

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/hijack/wire"
)

// service answers the requests of daemon.proto.
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
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.daemon.status(ctx, actor), nil
}

// Stop ends phosd.
func (s *service) Stop(ctx context.Context, request *api.StopRequest) (*api.StopReply, error) {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := actor.RequireRoot("stop phosd"); err != nil {
		return nil, err
	}
	if !request.GetDrain() {
		return s.daemon.endAll(ctx, request.GetForce())
	}
	var base *os.File
	if len(request.GetFiles()) > 0 {
		files, err := s.daemon.takeFiles(request.GetFiles(), actor)
		if err != nil {
			return nil, err
		}
		defer closeAll(files)
		if err := archive.CheckDirectory(files[0]); err != nil {
			return nil, err
		}
		base = files[0]
	}
	return s.daemon.drainAndEnd(ctx, base, request.GetForce())
}

// drainAndEnd saves and stops all programs, and then phosd. With force, what cannot be saved does
// not keep phosd from it.
func (d *Daemon) drainAndEnd(ctx context.Context, base *os.File, force bool) (*api.StopReply, error) {
	drained, err := d.drain(ctx, base)
	reply := &api.StopReply{}
	var pids []int
	for _, s := range drained {
		reply.Drained = append(reply.Drained, d.statusOf(ctx, api.Actor{}, s))
		pids = append(pids, s.record.Program.PID)
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

func (d *Daemon) status(ctx context.Context, actor api.Actor) *api.StatusReply {
	reply := &api.StatusReply{
		Daemon: &api.DaemonStatus{
			Version:                 api.Version,
			Pid:                     uint32(os.Getpid()),
			Socket:                  d.options.Config.Socket,
			StartedUnixMilliseconds: d.started.UnixMilli(),
			Gpus:                    d.options.Config.Gpus.Offer,
			Warnings:                d.warnings(),
		},
	}
	d.describeGPUs(ctx, actor, reply)
	waiting, bytes := d.pool.Waiting()
	reply.Daemon.WaitingWorkers, reply.Daemon.WaitingBytes = uint32(waiting), bytes
	var visible []*session
	for _, s := range d.table.all() {
		if actor.May(s.record.Owner.UID) {
			visible = append(visible, s)
		}
	}
	reply.Programs = make([]*api.Program, len(visible))
	var asking sync.WaitGroup
	for i, s := range visible {
		asking.Go(func() { reply.Programs[i] = d.statusOf(ctx, actor, s) })
	}
	asking.Wait()
	return reply
}

// warnings are what an administrator may want to change.
func (d *Daemon) warnings() []string {
	all := slices.Clone(d.dir.Warnings)
	if d.options.Guard != nil {
		all = append(all, d.options.Guard.Warnings()...)
	}
	return all
}

func (d *Daemon) statusOf(ctx context.Context, actor api.Actor, s *session) *api.Program {
	program := &api.Program{
		CheckpointRunning:       s.saving.Load() > 0,
		Session:                 s.record.Session,
		Pid:                     actor.Calls(s.record.Program),
		Uid:                     s.record.Owner.UID,
		User:                    userName(s.record.Owner.UID),
		Command:                 s.record.Command,
		StartedUnixMilliseconds: s.record.Started.UnixMilli(),
		WorkerPid:               uint32(s.record.Worker.PID),
		Description:             s.describe(ctx),
	}
	if noted := s.noted.Load(); noted != nil {
		if !noted.Last.IsZero() {
			program.LastCheckpointUnixMilliseconds = noted.Last.UnixMilli()
			program.CheckpointDir, program.CheckpointGeneration = noted.Dir, noted.Generation
		}
		if noted.Error != "" {
			program.CheckpointError, program.CheckpointFailedUnixMilliseconds = noted.Error, noted.Tried.UnixMilli()
		}
	}
	if failure := s.failure.Load(); failure != nil {
		program.Failure = *failure
	}
	if p, holds := d.policyOf(s); holds {
		program.Policy = p.Message()
	}
	if due := d.dueAt(s); !due.IsZero() {
		program.NextCheckpointUnixMilliseconds = due.UnixMilli()
	}
	return program
}

// endAll stops phosd when no program runs, or ends the programs' sessions first when told to.
func (d *Daemon) endAll(ctx context.Context, force bool) (*api.StopReply, error) {
	running := d.table.running()
	if len(running) > 0 && !force {
		first := running[0].record
		return nil, fmt.Errorf("%w: %d, the first is pid %d (%s); --force ends their sessions",
			api.ErrProgramsRunning, len(running), first.Program.PID, first.Command)
	}
	d.table.refuseAll()
	reply := &api.StopReply{}
	var ending sync.WaitGroup
	for _, s := range d.table.running() {
		reply.Ended = append(reply.Ended, &api.Program{
			Session: s.record.Session, Pid: uint32(s.record.Program.PID),
			Uid: s.record.Owner.UID, User: userName(s.record.Owner.UID), Command: s.record.Command,
		})
	}
	for _, s := range d.table.all() {
		ending.Go(func() { s.end(ctx, "phosd is being stopped") })
	}
	ending.Wait()
	d.stop()
	return reply, nil
}

func userName(uid uint32) string {
	if name := knownName(uid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// knownName is empty for a user whom this machine does not know.
func knownName(uid uint32) string {
	found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return found.Username
}
