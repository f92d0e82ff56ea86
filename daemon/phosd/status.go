package phosd

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/onboot"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/internal/linux/account"
)

// status describes phosd, the GPUs, and the programs that the caller may see.
func (d *Daemon) status(ctx context.Context, caller api.Caller) *api.StatusReply {
	reply := &api.StatusReply{
		Daemon: &api.DaemonStatus{
			Version:                 api.Version,
			Pid:                     uint32(os.Getpid()),
			Socket:                  d.options.Config.Socket,
			StartedUnixMilliseconds: d.started.UnixMilli(),
			Gpus:                    d.options.Config.Gpus.Offer,
			Warnings:                d.warnings(ctx),
			CheckpointDir:           d.options.Config.Checkpoint.Dir,
		},
	}
	d.devices.Describe(ctx, caller, reply)
	if d.options.UnusedGPUs != nil && reply.Daemon.DriverError == "" {
		reply.Daemon.DriverError = d.options.UnusedGPUs.Error()
	}
	standby, bytes := d.sessions.Standby()
	reply.Daemon.WaitingWorkers, reply.Daemon.WaitingBytes = uint32(standby), bytes
	visible := slices.DeleteFunc(d.sessions.All(), func(s *sessions.Session) bool {
		return !caller.CanAccess(s.Record().Owner.UID)
	})
	reply.Programs = make([]*api.Program, len(visible))
	var asking sync.WaitGroup
	for i, s := range visible {
		asking.Go(func() { reply.Programs[i] = d.describeProgram(ctx, caller, s) })
	}
	asking.Wait()
	reply.Uses = d.uses(caller)
	for _, each := range d.checkpoints.BootRestores() {
		if !caller.CanAccess(each.UID) {
			continue
		}
		message := &api.BootRestore{
			Dir: each.Dir, Uid: each.UID, User: account.Name(each.UID), State: each.State(), Error: each.Error,
			Attempts: uint32(each.Attempts),
		}
		if each.State() == onboot.Restored {
			message.Pid = caller.CallerPID(each.Root)
		}
		reply.BootRestores = append(reply.BootRestores, message)
	}
	return reply
}

// uses describes what the caller holds of what users share; for root, what each user holds.
func (d *Daemon) uses(caller api.Caller) (all []*api.Use) {
	programs := d.sessions.Usage()
	uids := []uint32{caller.UID}
	if caller.Root() {
		uids = append(slices.Collect(maps.Keys(programs)), d.quota.Users()...)
		slices.Sort(uids)
		uids = slices.Compact(uids)
	}
	for _, uid := range uids {
		use := programs[uid]
		// Only the error says that it is too much: nothing is refused here.
		_ = d.quota.Measure(uid, quota.PinnedBytes, use.PinnedBytes)
		_ = d.quota.Measure(uid, quota.DeviceBytes, use.DeviceBytes)
		for _, each := range d.quota.Of(uid) {
			message := &api.Use{
				Uid: uid, User: account.Name(uid), Key: each.Key, What: each.What, Bytes: each.Bytes, Used: each.Used,
			}
			switch {
			case uid == 0:
			case each.Limited:
				message.Limit = &each.Limit
			case each.Key == ledger.DeviceKey && use.DeviceLimit > 0: // it depends on the other tenants
				message.Limit = &use.DeviceLimit
			}
			all = append(all, message)
		}
	}
	return all
}

// warnings are what an administrator may want to change.
func (d *Daemon) warnings(ctx context.Context) []string {
	all := slices.Clone(d.dir.Warnings)
	if cpu, ok := d.options.CPU.(ckpt.Warner); ok {
		all = append(all, cpu.Warnings(ctx)...)
	}
	if d.options.UnusedGPUs != nil {
		all = append(all, "a software GPU serves, a thousand times slower than a real one: "+d.options.UnusedGPUs.Error())
	}
	if d.options.Guard != nil {
		all = append(all, d.options.Guard.Warnings()...)
	}
	return all
}

// describeProgram asks the program's worker, and adds what phosd knows.
func (d *Daemon) describeProgram(ctx context.Context, caller api.Caller, s *sessions.Session) *api.Program {
	record := s.Record()
	program := &api.Program{
		CheckpointRunning:       s.CheckpointRunning(),
		Session:                 record.Session,
		Pid:                     caller.CallerPID(record.Program),
		RootPid:                 caller.CallerPID(checkpoints.Root(s, caller.Process)),
		Uid:                     record.Owner.UID,
		User:                    account.Name(record.Owner.UID),
		Command:                 record.Command,
		StartedUnixMilliseconds: record.Started.UnixMilli(),
		WorkerPid:               uint32(record.Worker.PID),
		Description:             s.Describe(ctx),
		Failure:                 s.Failure(),
	}
	if last := s.Checkpoint(); last != nil {
		if !last.Last.IsZero() {
			program.LastCheckpointUnixMilliseconds = last.Last.UnixMilli()
			program.CheckpointDir, program.CheckpointGeneration = last.Dir, last.Generation
		}
		if last.Error != "" {
			program.CheckpointError, program.CheckpointFailedUnixMilliseconds = last.Error, last.Tried.UnixMilli()
		}
	}
	if p, ok := d.checkpoints.Policy(s); ok {
		program.Policy = p.Message()
	}
	if due := d.checkpoints.Due(s); !due.IsZero() {
		program.NextCheckpointUnixMilliseconds = due.UnixMilli()
	}
	return program
}
