package nested

import (
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestStatus: phosd's status of its real GPUs agrees with NVML. Here NVML is libphos.so over the
// inner phosd, and a program of the inner one is foreign to the outer one.
func TestStatus(t *testing.T) {
	python, err := harness.Tool("NVML_PYTHON")
	harness.Need(t, "nvml", err)
	inner := harness.Start(t, "--gpus", "soft:1,memory=1GiB")
	stranger := inner.HoldMemory(t, python, "0", "16").PID
	t.Setenv(api.SocketVariable, inner.Socket)
	outer := harness.Start(t, "--gpus", "cuda:driver="+filepath.Join(harness.Bin(), "lib", "libcuda.so.1"))

	driver := inner.Status().GetGpus()
	status := outer.Status()
	if got := status.GetDaemon(); got.GetDriverVersion() != "550.0" || got.GetCudaVersion() != 12040 ||
		got.GetDriverError() != "" {
		t.Errorf("daemon: %v", got)
	}
	gpus := status.GetGpus()
	if len(gpus) != 1 || gpus[0].GetPrograms() != 0 || len(gpus[0].GetPids()) != 0 {
		t.Fatalf("GPUs: %v", gpus)
	}
	for i, g := range gpus {
		h := g.GetHardware()
		if g.GetUuid() != driver[i].GetUuid() || h.GetMemoryBytes() != 1<<30 ||
			h.GetUsedBytes() != driver[i].GetUsedBytes() ||
			h.GetComputeMode() != "Default" ||
			h.GetLost() != "" {
			t.Errorf("GPU %d: got %v, want %v as in the inner phosd", i, g, driver[i])
		}
		if h.TemperatureCelsius != nil || h.PowerMilliwatts != nil || h.BusyPercent != nil {
			t.Errorf("GPU %d: got values that NVML does not have: %v", i, h)
		}
	}
	foreign := gpus[0].GetHardware().GetForeign()
	if len(foreign) != 1 || foreign[0].GetPid() != stranger || foreign[0].GetUsedBytes() != 16<<20 ||
		foreign[0].GetUser() != "root" {
		t.Errorf("foreign processes: %v", foreign)
	}
}
