package status

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/tests/golden"
)

// mockedInventory is the output of inventory/nvml for go-nvml's mock GPUs: one that reports
// everything, one that reports little, one in MIG mode, one that is lost.
const mockedInventory = "../../daemon/phosd/devices/inventory/nvml/testdata/inventory.json"

// realGPUs is the answer of a phosd with these GPUs, and one more that the driver does not know.
func realGPUs(t *testing.T) (*api.StatusReply, time.Time) {
	t.Helper()
	text, err := os.ReadFile(mockedInventory)
	if err != nil {
		t.Fatal(err)
	}
	var found inventory.Inventory
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	reply, now := example()
	reply.Programs = reply.Programs[2:3]
	reply.Programs[0].Failure = "GPU 3 (Mock NVIDIA A100-SXM4-40GB, 00000000:03:00.0): the GPU is lost: Xid 79, it " +
		"has fallen off the bus"
	reply.Daemon.Gpus, reply.Daemon.Warnings = "cuda", nil
	reply.Daemon.DriverVersion, reply.Daemon.CudaVersion = found.DriverVersion, uint32(found.CUDAVersion)
	reply.Gpus = nil
	for i := range found.GPUs {
		g := &found.GPUs[i]
		reply.Gpus = append(
			reply.Gpus,
			&api.GPU{Index: uint32(i), Name: g.Name, Uuid: g.UUID, MemoryBytes: 40 << 30, Hardware: g.Message()},
		)
	}
	first := reply.Gpus[0]
	first.UsedBytes, first.Programs, first.Pids = 1<<30, 3, []uint32{100, 400}
	held := uint64(5 << 20)
	first.Hardware.Foreign = []*api.ForeignProcess{
		{Pid: 200, User: "ann", Command: "python3 -c evil\x1b[2J"},
		{Pid: 300, User: "root", Command: "/usr/lib/xorg/Xorg", UsedBytes: &held, Graphics: true},
	}
	reply.Gpus[1].Hardware.Events = []*api.HardwareEvent{
		{Xid: 63, Text: "Xid 63, a row of memory is to be remapped", UnixMilliseconds: now.Add(-time.Hour).UnixMilli()},
		{
			Xid:              31,
			Text:             "Xid 31, a kernel touched memory that is not mapped",
			UnixMilliseconds: now.Add(-time.Minute).UnixMilli(),
			ProgramFault:     true,
		},
	}
	reply.Gpus[3].Name, reply.Gpus[3].Hardware.Lost = "Mock NVIDIA A100-SXM4-40GB",
		"the GPU is lost: Xid 79, it has fallen off the bus"
	reply.Gpus = append(reply.Gpus, &api.GPU{Index: 4, Name: "NVIDIA T4", MemoryBytes: 16 << 30})
	return reply, now
}

func TestRealGPUsTable(t *testing.T) {
	reply, now := realGPUs(t)
	var text bytes.Buffer
	if err := Of(reply, now).Table(&text); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/status_gpus.txt", text.Bytes())
}

func TestRealGPUsJSON(t *testing.T) {
	reply, now := realGPUs(t)
	view := Of(reply, now)
	inUTC(&view)
	text, err := json.MarshalIndent(view, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/status_gpus.json", append(text, '\n'))
}

// TestSilentDriverTable: the table says why the driver has no data.
func TestSilentDriverTable(t *testing.T) {
	reply, now := example()
	reply.Daemon.DriverError = "NVML does not answer"
	var text bytes.Buffer
	if err := Of(reply, now).Table(&text); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text.Bytes(), []byte("warning: no data from the driver: NVML does not answer\n")) {
		t.Errorf("got %s, want a warning in it", text.Bytes())
	}
}
