package phosd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// answerTime is how long a program may take to say what it asks, and to read the answer.
const answerTime = 5 * time.Second

const (
	// driverTime is how long a request waits for NVIDIA's driver, which may hang; older news are
	// better than none.
	driverTime = time.Second
	// driverEvery is how often the driver is asked although nobody wants to know: a GPU may be lost
	// without an event.
	driverEvery = 10 * time.Second
)

// Driver tells of real GPUs; inventory.Watch is one.
type Driver interface {
	// Inventory is what the driver says now, or said last when the context is done before it answers.
	Inventory(ctx context.Context) (*inventory.Inventory, error)
	Close() error
}

// hardware asks the driver; nil where there are no real GPUs, or it does not answer.
func (d *Daemon) hardware(ctx context.Context) (*inventory.Inventory, error) {
	if d.driver == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, driverTime)
	defer cancel()
	return d.driver.Inventory(ctx)
}

// room is how much memory of a GPU a program that comes back can have, and the whole. Of a real one
// others than our programs may have some.
func (d *Daemon) room(ctx context.Context, gpu int) (free, capacity uint64) {
	free, capacity = d.ledger.Room(gpu)
	used, _ := d.ledger.Usage(gpu)
	spare := free - min(free, capacity-used) // is given back when it is needed
	found, err := d.hardware(ctx)
	if err != nil {
		return free, capacity // the driver does not say
	}
	if g := d.hardwareOf(gpu, found); g != nil && g.Memory != nil {
		free = min(free, g.Memory.FreeBytes+spare)
	}
	return free, capacity
}

// hardwareOf finds one of our GPUs in what the driver says; nil: it is none of the driver's.
func (d *Daemon) hardwareOf(gpu int, found *inventory.Inventory) *inventory.GPU {
	if found == nil {
		return nil
	}
	id := inventory.UUIDText(d.gpus[gpu].UUID)
	for i := range found.GPUs {
		if found.GPUs[i].UUID == id {
			return &found.GPUs[i]
		}
	}
	return nil
}

// watchDriver keeps the driver asked, and with it the events coming.
func (d *Daemon) watchDriver() {
	if d.driver == nil {
		return
	}
	every := time.NewTicker(driverEvery)
	defer every.Stop()
	for {
		// What cannot be asked is said in the status, when somebody looks.
		found, _ := d.driver.Inventory(d.stopping)
		for i := range d.gpus {
			if g := d.hardwareOf(i, found); g != nil {
				d.lose(i, d.health.Lost(g))
			}
		}
		select {
		case <-d.stopping.Done():
			return
		case <-every.C:
		}
	}
}

// heard takes an event. It asks the driver nothing: the answer would come by where the event comes
// from.
func (d *Daemon) heard(e inventory.Event) {
	d.health.Note(e, time.Now())
	d.metrics.GPUFailed(e.BusID, e.Xid)
	d.log.Warn("the driver reports an error of a GPU", "gpu", e.Index, "bus", e.BusID, "xid", e.Xid, "what", e.Text())
	for i, info := range d.gpus {
		if e.Is(&inventory.GPU{Index: i, UUID: inventory.UUIDText(info.UUID), BusID: busText(info.Attributes)}) &&
			e.Fatal() {
			d.lose(i, e.Text())
		}
	}
}

// lose marks the programs that hold memory of a GPU, if there is a reason why it is lost: their
// calls fail from now on, and whoever looks learns why.
func (d *Daemon) lose(gpu int, reason string) {
	if reason == "" {
		return
	}
	info := d.gpus[gpu]
	why := fmt.Sprintf("GPU %d (%s, %s): %s", gpu, info.Name, busText(info.Attributes), reason)
	for _, s := range d.table.all() {
		if d.ledger.SlotUsage(gpu, s.ticket.slot) == 0 || !s.failure.CompareAndSwap(nil, &why) {
			continue
		}
		d.log.Error("a program's GPU is lost", "session", s.record.Session, "pid", s.record.Program.PID, "what", why)
		if err := d.dir.MarkFailed(s.record.Session, abi.DeviceUnavailable); err != nil {
			d.log.Error("tell a program that its GPU is lost", "error", err)
		}
	}
}

// describeGPUs fills in what a status says of GPUs and their driver.
func (d *Daemon) describeGPUs(ctx context.Context, actor api.Actor, reply *api.StatusReply) {
	found, err := d.hardware(ctx)
	if err != nil {
		reply.Daemon.DriverError = err.Error()
	}
	if found != nil {
		reply.Daemon.DriverVersion, reply.Daemon.CudaVersion = found.DriverVersion, uint32(found.CUDAVersion)
	}
	sessions := d.table.all()
	for i, info := range d.gpus {
		used, capacity := d.ledger.Usage(i)
		gpu := &api.GPU{
			Index:       uint32(i),
			Name:        info.Name,
			Uuid:        inventory.UUIDText(info.UUID),
			MemoryBytes: capacity,
			UsedBytes:   used,
		}
		for _, s := range sessions {
			if d.ledger.SlotUsage(i, s.ticket.slot) == 0 {
				continue
			}
			gpu.Programs++
			if actor.May(s.record.Owner.UID) {
				gpu.Pids = append(gpu.Pids, actor.Calls(s.record.Program))
			}
		}
		if g := d.hardwareOf(i, found); g != nil {
			gpu.Hardware = d.describeHardware(g, sessions)
			d.lose(i, gpu.Hardware.GetLost())
		}
		reply.Gpus = append(reply.Gpus, gpu)
	}
}

// describeHardware adds to what the driver says whose its processes are, and what has happened.
func (d *Daemon) describeHardware(g *inventory.GPU, sessions []*session) *api.Hardware {
	m := g.Message()
	m.Lost = d.health.Lost(g)
	for _, p := range g.Processes {
		if !ours(p.PID, sessions) {
			m.Foreign = append(m.Foreign, foreign(p))
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

// ours reports whether a process is one of phosd's own: a worker of a session, or one that has none
// yet.
func ours(pid uint32, sessions []*session) bool {
	if slices.ContainsFunc(sessions, func(s *session) bool { return s.record.Worker.PID == int(pid) }) {
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

// foreign describes a process as far as it can be seen from here: in another container it cannot.
func foreign(p inventory.Process) *api.ForeignProcess {
	m := &api.ForeignProcess{Pid: p.PID, UsedBytes: p.UsedBytes, Graphics: p.Graphics}
	if id, err := proc.Of(int(p.PID)); err == nil {
		m.Command = id.Command(commandBytes)
		if uid, err := id.UID(); err == nil {
			m.User = userName(uid)
		}
	}
	return m
}

// answer tells a program of the GPUs, which asks for them without a session: one that looks on, and
// does not compute.
func (d *Daemon) answer(conn *net.UnixConn, actor api.Actor) {
	defer conn.Close()
	if err := d.hearAndAnswer(conn, actor); err != nil {
		d.log.Debug("a question about GPUs is not answered", "pid", actor.PID, "error", err)
	}
}

func (d *Daemon) hearAndAnswer(conn *net.UnixConn, actor api.Actor) error {
	inquiry := make([]byte, wire.InquiryBytes)
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, inquiry); err != nil {
		return err
	}
	answer := d.answerFor(actor).Append(nil)
	// How long the driver took to tell is not the program's time.
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := conn.Write(answer); err != nil {
		return err
	}
	// The program closes first: a checkpoint that finds the connection must see that it is phosd's,
	// and is over in a moment.
	_, _ = conn.Read(inquiry[:1])
	return nil
}

// answerFor holds all GPUs, and of the programs those that the actor may see.
func (d *Daemon) answerFor(actor api.Actor) *wire.Answer {
	version := gpu.Driver(d.gpus)
	answer := &wire.Answer{DriverVersion: softDriver(version), CUDAVersion: uint32(version)}
	found, _ := d.hardware(d.stopping) // without it there is less to tell
	if found != nil {
		answer.DriverVersion = found.DriverVersion
	}
	sessions := d.table.all()
	for i, info := range d.gpus {
		used, capacity := d.ledger.Usage(i)
		device := wire.AnsweredDevice{
			Device: wire.Device{
				Name:        info.Name,
				UUID:        info.UUID,
				MemoryBytes: info.MemoryBytes,
				Attributes:  info.Attributes,
			},
			UsedBytes: used, FreeBytes: capacity - min(used, capacity),
		}
		if g := d.hardwareOf(i, found); g != nil {
			d.addState(&device, g)
		}
		answer.Devices = append(answer.Devices, device)
		for _, s := range sessions {
			if held := d.ledger.ProgramUsage(i, s.ticket.slot); held > 0 && actor.May(s.record.Owner.UID) {
				answer.Holdings = append(
					answer.Holdings,
					wire.Holding{Device: uint32(i), PID: actor.Calls(s.record.Program), UsedBytes: held},
				)
			}
		}
	}
	return answer
}

// addState adds what the driver says of a real GPU.
func (d *Daemon) addState(to *wire.AnsweredDevice, g *inventory.GPU) {
	if d.health.Lost(g) != "" {
		to.Known |= wire.AnswerKnowsLost
	}
	if memory := g.Memory; memory != nil {
		to.UsedBytes, to.FreeBytes = memory.UsedBytes, memory.FreeBytes
	}
	if use := g.Utilisation; use != nil {
		to.Known |= wire.AnswerKnowsBusy
		to.BusyPercent, to.MemoryBusyPercent = use.GPUPercent, use.MemoryPercent
	}
	for bit, known := range map[uint32]struct{ from, to *uint32 }{
		wire.AnswerKnowsTemperature: {g.TemperatureCelsius, &to.TemperatureCelsius},
		wire.AnswerKnowsPower:       {g.PowerMilliwatts, &to.PowerMilliwatts},
		wire.AnswerKnowsPowerLimit:  {g.PowerLimitMilliwatts, &to.PowerLimitMilliwatts},
	} {
		if known.from != nil {
			to.Known |= bit
			*known.to = *known.from
		}
	}
}

// softDriver is the name of the driver that the software GPU stands for, by the version of CUDA:
// tools take it apart at the dot.
func softDriver(version int32) string {
	if version >= 13000 {
		return "580.0"
	}
	return "550.0"
}

// busText writes a GPU's place on the PCI bus as the driver's tools do.
func busText(attributes map[abi.DeviceAttribute]int32) string {
	return fmt.Sprintf(
		"%08X:%02X:%02X.0",
		uint32(attributes[abi.AttrPCIDomainID]),
		uint32(attributes[abi.AttrPCIBusID]),
		uint32(attributes[abi.AttrPCIDeviceID]),
	)
}
