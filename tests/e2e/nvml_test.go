package e2e

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory/nvml"
	"github.com/phos-gpu/phos/tests/harness"
)

// nvmlOutput is the output of look.py.
type nvmlOutput struct {
	Driver string
	CUDA   int
	GPUs   []struct {
		Index                         int
		Name, UUID                    string
		BusID                         string `json:"bus_id"`
		Total, Used, Free             uint64
		Capability                    []int
		Processes                     []struct{ PID, Used uint64 }
		Drawing                       int
		Temperature, Power, Fan, Link *int
	}
}

// TestNVML compares the output of NVIDIA's own bindings with pos_cli and the driver's calls.
func TestNVML(t *testing.T) {
	python, err := harness.Tool("NVML_PYTHON")
	harness.Need(t, "nvml", err)
	daemon := harness.Start(t, "--gpus", "soft:2,memory=1GiB")
	t.Cleanup(daemon.Empty)
	driver := daemon.HoldMemory(t, python, "1", "48")

	monitor := daemon.Program(python, harness.Workload("nvml", "look.py"))
	// NVML lists all GPUs, whatever the driver shows.
	monitor.Env = append(monitor.Env, "CUDA_VISIBLE_DEVICES=1")
	if err := monitor.Run(); err != nil {
		t.Fatalf("look.py: %v\n%s", err, monitor.Output.String())
	}
	var got nvmlOutput
	if err := json.Unmarshal([]byte(monitor.Output.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, monitor.Output.String())
	}
	text, err := daemon.Command("--status", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		GPUs []struct {
			Index                  int
			Name, UUID             string
			MemoryBytes, UsedBytes uint64
		}
		Programs []struct{ PID, Session uint64 }
	}
	// Field names in JSON have underscores, unlike these.
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "_", "")), &want); err != nil {
		t.Fatal(err)
	}
	if len(got.GPUs) != 2 || len(want.GPUs) != 2 || got.CUDA != 12040 || got.Driver == "" {
		t.Fatalf("NVML reports %+v, pos_cli %+v", got, want)
	}
	for i, g := range got.GPUs {
		w := want.GPUs[i]
		if g.Index != w.Index || g.Name != w.Name || g.UUID != w.UUID || g.Total != w.MemoryBytes ||
			g.Used != w.UsedBytes ||
			g.Free != w.MemoryBytes-w.UsedBytes {
			t.Errorf("NVML reports %+v, pos_cli %+v", g, w)
		}
		if g.Drawing != 0 || g.Temperature != nil || g.Power != nil || g.Fan != nil || g.Link != nil ||
			!reflect.DeepEqual(g.Capability, []int{9, 0}) {
			t.Errorf("NVML reports values that phos does not have: %+v", g)
		}
	}
	used := got.GPUs[1]
	if used.Total != driver.Total || used.Free != driver.Free || !strings.EqualFold(used.BusID, "0000"+driver.BusID) {
		t.Errorf("NVML reports %+v, cuMemGetInfo %+v", used, driver)
	}
	if len(got.GPUs[0].Processes) != 0 || len(used.Processes) != 1 || used.Processes[0].PID != uint64(driver.PID) ||
		used.Processes[0].Used != 48<<20 {
		t.Errorf("processes: %+v and %+v", got.GPUs[0].Processes, used.Processes)
	}
	// A program that only queries does not get a session.
	if len(want.Programs) != 1 || want.Programs[0].Session != 1 {
		t.Errorf("programs: %+v", want.Programs)
	}
	again := daemon.HoldMemory(t, python, "0", "1")
	for _, program := range daemon.Status().GetPrograms() {
		if program.GetSession() > 2 {
			t.Errorf("session %d: a query created a session (%+v)", program.GetSession(), again)
		}
	}
}

// TestNVMLWithoutDaemon: without phosd, NVML behaves as without a loaded driver.
func TestNVMLWithoutDaemon(t *testing.T) {
	python, err := harness.Tool("NVML_PYTHON")
	harness.Need(t, "nvml", err)
	daemon := harness.Start(t)
	program := daemon.Program(
		python,
		"-c",
		"import pynvml\ntry: pynvml.nvmlInit()\nexcept pynvml.NVMLError_DriverNotLoaded: print('ok none')",
	)
	program.Env = append(program.Env, api.SocketVariable+"="+filepath.Join(t.TempDir(), "none"))
	program.OK()
}

// TestInventoryOfSoftwareGPUs lets phosd's inventory query libphos.so with go-nvml, so the code is
// tested on machines without GPUs.
func TestInventoryOfSoftwareGPUs(t *testing.T) {
	harness.Need(t, "build", harness.Built())
	daemon := harness.Start(t, "--gpus", "soft:2,memory=1GiB")
	t.Setenv(api.SocketVariable, daemon.Socket)
	source, err := nvml.Open(filepath.Join(harness.Bin(), "lib", "libnvidia-ml.so.1"))
	if errors.Is(err, inventory.ErrUnsupported) {
		t.Skip("needs cgo: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	found, err := source.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	status := daemon.Status().GetGpus()
	if len(found.GPUs) != len(status) || found.CUDAVersion != 12040 || inventory.Refusals(found, nil) != nil {
		t.Fatalf("found %+v", found)
	}
	for i, g := range found.GPUs {
		want := inventory.GPU{
			Index: i, Name: status[i].GetName(), UUID: status[i].GetUuid(), BusID: g.BusID, ComputeCapability: 90,
			ComputeMode: inventory.ModeDefault,
			Memory:      &inventory.Memory{TotalBytes: 1 << 30, FreeBytes: 1 << 30},
		}
		if !reflect.DeepEqual(g, want) {
			t.Errorf("found %+v, want %+v", g, want)
		}
	}
	if err := source.Events(t.Context(), nil); !errors.Is(err, inventory.ErrNoEvents) {
		t.Errorf("events: %v", err)
	}
}
