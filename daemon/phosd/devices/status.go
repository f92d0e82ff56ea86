package devices

import (
	"context"
	"os"
	"slices"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// commandBytes is how much of a command line is shown.
const commandBytes = 256

// Describe fills in what a status reply says about GPUs and their driver.
func (d *Devices) Describe(ctx context.Context, caller api.Caller, reply *api.StatusReply) {
	found, err := d.query(ctx)
	if err != nil {
		reply.Daemon.DriverError = err.Error()
	}
	if found != nil {
		reply.Daemon.DriverVersion, reply.Daemon.CudaVersion = found.DriverVersion, uint32(found.CUDAVersion)
	}
	holders := d.sessions.Holders()
	for i, info := range d.gpus {
		used, capacity := d.ledger.Usage(i)
		gpu := &api.GPU{
			Index:       uint32(i),
			Name:        info.Name,
			Uuid:        inventory.UUIDText(info.UUID),
			MemoryBytes: capacity,
			UsedBytes:   used,
		}
		for _, h := range holders {
			if d.ledger.SlotUsage(i, h.Slot) == 0 {
				continue
			}
			gpu.Programs++
			if caller.CanAccess(h.Owner) {
				gpu.Pids = append(gpu.Pids, caller.CallerPID(h.Program))
			}
		}
		if g := d.hardwareOf(i, found); g != nil {
			gpu.Hardware = d.describeHardware(g, holders)
			d.markLost(i, gpu.Hardware.GetLost())
		}
		reply.Gpus = append(reply.Gpus, gpu)
	}
}

// describeHardware returns the driver's report on a GPU, with foreign processes and past events.
func (d *Devices) describeHardware(g *inventory.GPU, holders []Holder) *api.Hardware {
	m := g.Message()
	m.Lost = d.health.Lost(g)
	for _, p := range g.Processes {
		if !isWorker(p.PID, holders) {
			m.Foreign = append(m.Foreign, describeForeign(p))
		}
	}
	for _, e := range d.health.Of(g) {
		m.Events = append(
			m.Events,
			&api.HardwareEvent{
				Xid:              e.Xid,
				Text:             e.Text(),
				UnixMilliseconds: e.At.UnixMilli(),
				ProgramFault:     !e.Degrades(),
			},
		)
	}
	return m
}

// isWorker reports whether a process is a worker of phosd, with or without a session.
func isWorker(pid uint32, holders []Holder) bool {
	if slices.ContainsFunc(holders, func(h Holder) bool { return h.WorkerPID == int(pid) }) {
		return true
	}
	id, err := proc.Of(int(pid))
	if err != nil {
		return false
	}
	program, err := id.Executable()
	own, ownErr := os.Executable()
	return err == nil && ownErr == nil && program == own
}

// describeForeign describes a process as far as phosd can see it: not one in another container.
func describeForeign(p inventory.Process) *api.ForeignProcess {
	m := &api.ForeignProcess{Pid: p.PID, UsedBytes: p.UsedBytes, Graphics: p.Graphics}
	if id, err := proc.Of(int(p.PID)); err == nil {
		m.Command = id.Command(commandBytes)
		if uid, err := id.UID(); err == nil {
			m.User = account.Name(uid)
		}
	}
	return m
}
