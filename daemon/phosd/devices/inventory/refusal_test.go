package inventory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

// machine is a machine that can be served, with one change.
func machine(change func(*inventory.Inventory)) *inventory.Inventory {
	no := false
	found := &inventory.Inventory{DriverVersion: "550.54.15", CUDAVersion: 12040, GPUs: []inventory.GPU{
		{Index: 0, Name: "A", BusID: "00000000:01:00.0", MIG: &no, ComputeMode: inventory.ModeDefault},
		{Index: 1, Name: "B"}, // reports nothing else
	}}
	if change != nil {
		change(found)
	}
	return found
}

func TestRefusals(t *testing.T) {
	yes := true
	mode := func(m inventory.ComputeMode) func(*inventory.Inventory) {
		return func(v *inventory.Inventory) { v.GPUs[0].ComputeMode = m }
	}
	for _, test := range []struct {
		name   string
		found  *inventory.Inventory
		asking error
		kind   error
		says   []string
	}{
		{name: "served", found: machine(nil)},
		{name: "no NVML, and so unknown", asking: inventory.ErrUnsupported},
		{
			name: "no driver", asking: fmt.Errorf("%w: libnvidia-ml.so.1 is not found", inventory.ErrNoDriver), kind: inventory.ErrNoDriver,
			says: []string{"no NVIDIA driver: libnvidia-ml.so.1 is not found", "install", "--gpus soft:1"},
		},
		{
			name: "an 11.x driver", found: machine(func(v *inventory.Inventory) {
				v.DriverVersion, v.CUDAVersion = "470.82.01", 11040
			}), kind: inventory.ErrOldDriver,
			says: []string{"driver 470.82.01 serves CUDA 11.4", "cuMemMap", "525"},
		},
		{
			name: "an old driver that does not say what it serves", kind: inventory.ErrOldDriver, says: []string{"driver 418.67;"},
			found: machine(func(v *inventory.Inventory) { v.DriverVersion, v.CUDAVersion = "418.67", 0 }),
		},
		{name: "a driver that says nothing", found: machine(func(v *inventory.Inventory) {
			v.DriverVersion, v.CUDAVersion = "", 0
		})},
		{name: "the oldest that is served", found: machine(func(v *inventory.Inventory) {
			v.DriverVersion, v.CUDAVersion = "525.60.13", 12000
		})},
		{
			name: "no GPUs", found: machine(func(v *inventory.Inventory) { v.GPUs = nil }), kind: inventory.ErrNoGPUs,
			says: []string{"550.54.15 knows no GPU", "dmesg"},
		},
		{
			name: "MIG", found: machine(func(v *inventory.Inventory) { v.GPUs[0].MIG = &yes }), kind: inventory.ErrMIG,
			says: []string{"GPU 0 (A, 00000000:01:00.0) is in MIG mode", "nvidia-smi -i 0 -mig 0"},
		},
		{
			name: "prohibited", found: machine(mode(inventory.ModeProhibited)), kind: inventory.ErrComputeMode,
			says: []string{"Prohibited", "nvidia-smi -i 0 -c DEFAULT"},
		},
		{
			name: "exclusive", found: machine(mode(inventory.ModeExclusiveProcess)), kind: inventory.ErrComputeMode,
			says: []string{"Exclusive_Process", "-c DEFAULT"},
		},
		{
			name: "exclusive, the old one", found: machine(mode(inventory.ModeExclusiveThread)),
			kind: inventory.ErrComputeMode, says: []string{"Exclusive_Thread"},
		},
		{
			name: "lost", found: machine(func(v *inventory.Inventory) {
				v.GPUs[1].Lost = "GPU is lost"
			}), kind: inventory.ErrLost,
			says: []string{"GPU 1 (B) is lost: GPU is lost", "--gpu-reset"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused := inventory.Refusals(test.found, test.asking)
			if test.kind == nil {
				if len(refused) != 0 || inventory.Join(refused) != nil {
					t.Errorf("refused: %v", refused)
				}
				return
			}
			if len(refused) != 1 || !errors.Is(inventory.Join(refused), test.kind) || refused[0].Remedy == "" {
				t.Fatalf("refused: %v", refused)
			}
			for _, want := range test.says {
				if !strings.Contains(refused[0].Error(), want) {
					t.Errorf("%q lacks %q", refused[0], want)
				}
			}
		})
	}
}

// TestEachGPUIsRefused checks that each GPU that cannot be served is named.
func TestEachGPUIsRefused(t *testing.T) {
	refused := inventory.Refusals(machine(func(v *inventory.Inventory) {
		v.GPUs[0].ComputeMode, v.GPUs[1].Lost = inventory.ModeProhibited, "gone"
	}), nil)
	err := inventory.Join(refused)
	if len(refused) != 2 || !errors.Is(err, inventory.ErrComputeMode) || !errors.Is(err, inventory.ErrLost) {
		t.Errorf("refused: %v", err)
	}
}

func TestAmong(t *testing.T) {
	found := machine(func(v *inventory.Inventory) {
		v.GPUs[0].UUID, v.GPUs[1].UUID = inventory.UUIDText([16]byte{1}), inventory.UUIDText([16]byte{15: 2})
	})
	if got := found.Among([][16]byte{{15: 2}, {3}}).GPUs; len(got) != 1 ||
		got[0].UUID != "GPU-00000000-0000-0000-0000-000000000002" ||
		len(found.GPUs) != 2 {
		t.Errorf("got %+v", got)
	}
	if got := found.Among([][16]byte{{3}}).GPUs; len(got) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestEvents(t *testing.T) {
	for _, test := range []struct {
		xid             uint64
		fatal, degrades bool
		text            string
	}{
		{31, false, false, "GPU 2 (00000000:81:00.0): Xid 31, a kernel touched memory that is not mapped"},
		{48, false, true, "GPU 2 (00000000:81:00.0): Xid 48, a double-bit memory error"},
		{79, true, true, "GPU 2 (00000000:81:00.0): the GPU is lost: Xid 79, it has fallen off the bus"},
		{4711, false, true, "GPU 2 (00000000:81:00.0): Xid 4711"},
	} {
		e := inventory.Event{Index: 2, BusID: "00000000:81:00.0", Xid: test.xid}
		if e.Fatal() != test.fatal || e.Degrades() != test.degrades || e.String() != test.text {
			t.Errorf("Xid %d: fatal %v, degrades %v, %q", test.xid, e.Fatal(), e.Degrades(), e)
		}
	}
}
