package devices

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/hijack/wire"
)

// inquiryTimeout is how long a program may take to send its inquiry, and to read the answer.
const inquiryTimeout = 5 * time.Second

// AnswerInquiry tells a program about the GPUs. Programs that only look at GPUs, as nvidia-smi
// does, ask so without a session.
func (d *Devices) AnswerInquiry(ctx context.Context, conn *net.UnixConn, caller api.Caller) {
	defer conn.Close()
	if err := d.answerInquiry(ctx, conn, caller); err != nil {
		d.log.Debug("GPU inquiry not answered", "pid", caller.Process.PID, "error", err)
	}
}

// answerInquiry reads one inquiry and answers it. It returns when the program has closed conn.
func (d *Devices) answerInquiry(ctx context.Context, conn *net.UnixConn, caller api.Caller) error {
	inquiry := make([]byte, wire.InquiryBytes)
	if err := conn.SetDeadline(time.Now().Add(inquiryTimeout)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, inquiry); err != nil {
		return err
	}
	answer := d.answer(ctx, caller).Append(nil)
	// The time that the driver took does not count as the program's.
	if err := conn.SetDeadline(time.Now().Add(inquiryTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(answer); err != nil {
		return err
	}
	// The program closes first: a checkpoint that finds the connection must see that the peer is
	// phosd.
	_, _ = conn.Read(inquiry[:1])
	return nil
}

// answer describes all GPUs, and the programs that the caller may see.
func (d *Devices) answer(ctx context.Context, caller api.Caller) *wire.Answer {
	version := gpu.Driver(d.gpus)
	answer := &wire.Answer{DriverVersion: softDriver(version), CUDAVersion: uint32(version)}
	found, _ := d.query(ctx) // on an error the answer says less
	if found != nil {
		answer.DriverVersion = found.DriverVersion
	}
	holders := d.sessions.Holders()
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
			d.addHardware(&device, g)
		}
		answer.Devices = append(answer.Devices, device)
		for _, h := range holders {
			if held := d.ledger.ProgramUsage(i, h.Slot); held > 0 && caller.CanAccess(h.Owner) {
				answer.Holdings = append(
					answer.Holdings,
					wire.Holding{Device: uint32(i), PID: caller.CallerPID(h.Program), UsedBytes: held},
				)
			}
		}
	}
	return answer
}

// addHardware adds what the driver reports about a real GPU.
func (d *Devices) addHardware(to *wire.AnsweredDevice, g *inventory.GPU) {
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
	for bit, value := range map[uint32]struct{ from, to *uint32 }{
		wire.AnswerKnowsTemperature: {g.TemperatureCelsius, &to.TemperatureCelsius},
		wire.AnswerKnowsPower:       {g.PowerMilliwatts, &to.PowerMilliwatts},
		wire.AnswerKnowsPowerLimit:  {g.PowerLimitMilliwatts, &to.PowerLimitMilliwatts},
	} {
		if value.from != nil {
			to.Known |= bit
			*value.to = *value.from
		}
	}
}

// softDriver returns the driver version that the software GPU reports for a CUDA version. Tools
// split it at the dot.
func softDriver(version int32) string {
	if version >= 13000 {
		return "580.0"
	}
	return "550.0"
}
