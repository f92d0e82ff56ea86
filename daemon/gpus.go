package daemon

import (
	"encoding/hex"
	"io"
	"net"
	"time"

	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/hijack/wire"
)

// answerTime is how long a program may take to say what it asks, and to read the answer.
const answerTime = 5 * time.Second

func (d *Daemon) gpuStatus() []*rpc.GPU {
	sessions := d.table.all()
	gpus := make([]*rpc.GPU, len(d.gpus))
	for i, info := range d.gpus {
		used, capacity := d.ledger.Usage(i)
		gpus[i] = &rpc.GPU{
			Index: uint32(i), Name: info.Name, Uuid: uuidText(info.UUID), MemoryBytes: capacity, UsedBytes: used,
		}
		for _, s := range sessions {
			if d.ledger.SlotUsage(i, s.ticket.slot) > 0 {
				gpus[i].Programs++
			}
		}
	}
	return gpus
}

// answer tells a program of the GPUs, which asks for them without a session: one that looks on, and does not compute.
func (d *Daemon) answer(conn *net.UnixConn, actor rpc.Actor) {
	defer conn.Close()
	inquiry := make([]byte, wire.InquiryBytes)
	if conn.SetDeadline(time.Now().Add(answerTime)) != nil {
		return
	}
	if _, err := io.ReadFull(conn, inquiry); err != nil {
		return
	}
	answer := d.answerFor(actor)
	// Who does not read it does not want it.
	_, _ = conn.Write(answer.Append(nil))
}

// answerFor holds all GPUs, and of the programs those that the actor may see.
func (d *Daemon) answerFor(actor rpc.Actor) *wire.Answer {
	answer := &wire.Answer{DriverVersion: softDriver, CUDAVersion: worker.DriverVersion}
	sessions := d.table.all()
	for i, info := range d.gpus {
		used, capacity := d.ledger.Usage(i)
		answer.Devices = append(answer.Devices, wire.AnsweredDevice{
			Device:    wire.Device{Name: info.Name, UUID: info.UUID, MemoryBytes: info.MemoryBytes, Attributes: info.Attributes},
			UsedBytes: used, FreeBytes: capacity - min(used, capacity),
		})
		for _, s := range sessions {
			if held := d.ledger.SlotUsage(i, s.ticket.slot); held > 0 && actor.May(s.record.Owner.UID) {
				answer.Holdings = append(answer.Holdings, wire.Holding{Device: uint32(i), PID: actor.Calls(s.record.Program), UsedBytes: held})
			}
		}
	}
	return answer
}

// softDriver is the version of the driver that the software GPU stands for, by worker.DriverVersion: tools take it apart at the dot.
const softDriver = "550.0"

// uuidText writes a GPU's identity as the driver's tools do.
func uuidText(id [16]byte) string {
	text := hex.EncodeToString(id[:])
	return "GPU-" + text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
