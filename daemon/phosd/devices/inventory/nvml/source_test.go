//go:build cgo

package nvml

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/tests/golden"
)

// bare is a GPU of go-nvml's server that supports nothing beyond what that server answers.
func bare(index int) *dgxa100.Device {
	const no = nvml.ERROR_NOT_SUPPORTED
	d := dgxa100.NewDevice(index)
	d.UUID = "GPU-00000000-0000-0000-0000-00000000000" + string(rune('0'+index))
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var info nvml.PciInfo
		for i, c := range []byte(d.PciBusID) {
			info.BusId[i] = c
		}
		return info, nvml.SUCCESS
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 7, no }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 7, no }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 7, no }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 7}, no }
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_PROHIBITED, no }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, 0, no }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 7, no }
	d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, no }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 7}}, no }
	d.GetGraphicsRunningProcessesFunc = d.GetComputeRunningProcessesFunc
	d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return no }
	return d
}

// full is one that answers everything.
func full(index int) *dgxa100.Device {
	const yes = nvml.SUCCESS
	d := bare(index)
	d.MemoryInfo = nvml.Memory{Total: 40 << 30, Used: 3 << 30, Free: 37 << 30}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 41, yes }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 61_250, yes }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 400_000, yes }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 93, Memory: 40}, yes
	}
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, yes }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, 1, yes }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 2, yes }
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link < 2 {
			return nvml.EnableState(link), yes
		}
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) { return bare(3).GetPciInfo() }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 100, UsedGpuMemory: 1 << 30}, {Pid: 200, UsedGpuMemory: notAvailable}}, yes
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 100, UsedGpuMemory: 1 << 30}, {Pid: 300, UsedGpuMemory: 5 << 20}}, yes
	}
	return d
}

// server is go-nvml's, with these GPUs in the place of its own.
func server(devices ...nvml.Device) *dgxa100.Server {
	s := dgxa100.New()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return len(devices), nvml.SUCCESS }
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if devices[i] == nil {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return devices[i], nvml.SUCCESS
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	return s
}

func opened(t *testing.T, library nvml.Interface) inventory.Source {
	t.Helper()
	source, err := open(library, Library)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

func take(t *testing.T, source inventory.Source) *inventory.Inventory {
	t.Helper()
	found, err := source.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a GPU does not answer is left out; the golden file shows that no 7 of bare's comes through.
func TestInventory(t *testing.T) {
	divided := full(2)
	divided.MigMode = nvml.DEVICE_MIG_ENABLE
	text, err := json.MarshalIndent(take(t, opened(t, server(full(0), bare(1), divided, nil))), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	golden.Check(t, "testdata/inventory.json", text)
}

// A GPU that is lost later keeps its name, which the driver no longer tells.
func TestLostLater(t *testing.T) {
	d := full(0)
	source := opened(t, server(d))
	take(t, source)
	lost := func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	name := d.Name
	d.GetNameFunc, d.GetUUIDFunc = lost, lost
	got := take(t, source).GPUs[0]
	if got.Lost == "" || got.Name != name || got.UUID != d.UUID || got.Processes != nil {
		t.Errorf("%+v", got)
	}
	if refused := inventory.Refusals(&inventory.Inventory{DriverVersion: "550.1", GPUs: []inventory.GPU{got}}, nil); len(
		refused,
	) != 1 ||
		!errors.Is(refused[0], inventory.ErrLost) {
		t.Errorf("refused: %v", refused)
	}
}

// A driver from before MIG lacks the name that asks for it.
func TestDriverWithoutMIG(t *testing.T) {
	s := server(full(0))
	s.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	if got := take(t, opened(t, s)).GPUs[0].MIG; got != nil {
		t.Errorf("MIG: %v", *got)
	}
}

func TestOpenFails(t *testing.T) {
	for _, test := range []struct {
		got      nvml.Return
		noDriver bool
	}{
		{nvml.ERROR_LIBRARY_NOT_FOUND, true},
		{nvml.ERROR_DRIVER_NOT_LOADED, true},
		{nvml.ERROR_LIB_RM_VERSION_MISMATCH, true},
		{nvml.ERROR_NO_PERMISSION, true},
		{nvml.ERROR_UNKNOWN, false},
	} {
		s := server()
		s.InitFunc = func() nvml.Return { return test.got }
		if _, err := open(s, Library); err == nil || errors.Is(err, inventory.ErrNoDriver) != test.noDriver {
			t.Errorf("%v: %v", test.got, err)
		}
	}
}

// The real loader, asked for a library that is not there.
func TestNoLibrary(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	if !errors.Is(err, inventory.ErrNoDriver) {
		t.Errorf("got %v", err)
	}
}

func TestEvents(t *testing.T) {
	d := full(1)
	var registered uint64
	d.RegisterEventsFunc = func(kinds uint64, _ nvml.EventSet) nvml.Return {
		registered = kinds
		return nvml.SUCCESS
	}
	s := server(bare(0), d)
	ctx, cancel := context.WithCancel(t.Context())
	steps := []func() (nvml.EventData, nvml.Return){
		func() (nvml.EventData, nvml.Return) { return nvml.EventData{}, nvml.ERROR_TIMEOUT },
		func() (nvml.EventData, nvml.Return) {
			return nvml.EventData{Device: d, EventType: nvml.EventTypeXidCriticalError, EventData: 31}, nvml.SUCCESS
		},
		func() (nvml.EventData, nvml.Return) {
			return nvml.EventData{Device: d, EventType: nvml.EventTypePState}, nvml.SUCCESS
		},
		func() (nvml.EventData, nvml.Return) {
			cancel()
			return nvml.EventData{
				Device:    d,
				EventType: nvml.EventTypeXidCriticalError,
				EventData: inventory.XidLost,
			}, nvml.SUCCESS
		},
	}
	freed := false
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				step := steps[0]
				steps = steps[1:]
				return step()
			},
			FreeFunc: func() nvml.Return {
				freed = true
				return nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
	var got []inventory.Event
	if err := opened(t, s).Events(ctx, func(e inventory.Event) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	want := []inventory.Event{
		{UUID: d.UUID, Index: 1, BusID: d.PciBusID, Xid: 31},
		{UUID: d.UUID, Index: 1, BusID: d.PciBusID, Xid: 79},
	}
	if !slices.Equal(got, want) || !freed || registered != nvml.EventTypeXidCriticalError {
		t.Errorf("%+v, freed %v, registered %#x", got, freed, registered)
	}
}

func TestNoEvents(t *testing.T) {
	for name, s := range map[string]*dgxa100.Server{"no set": server(bare(0)), "no GPU has them": server(bare(0))} {
		if name != "no set" {
			s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
				return &mock.EventSet{FreeFunc: func() nvml.Return { return nvml.SUCCESS }}, nvml.SUCCESS
			}
		}
		if err := opened(t, s).Events(t.Context(), nil); !errors.Is(err, inventory.ErrNoEvents) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
