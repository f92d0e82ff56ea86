//go:build cgo

package nvml

import (
	"cmp"
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

// maxLinks is how many NVLinks a GPU may have.
const maxLinks = 18

// notAvailable is the value of a number that NVML does not have.
const notAvailable = ^uint64(0)

// keep stores the result of a query, if there is one. It returns why the GPU is lost, or "".
func keep[T any](place *T, ask func() (T, nvml.Return)) (lost string) {
	value, got := ask()
	if got == nvml.ERROR_GPU_IS_LOST || got == nvml.ERROR_RESET_REQUIRED {
		return got.Error()
	}
	if got == nvml.SUCCESS {
		*place = value
	}
	return ""
}

// keepNew is keep for an optional value.
func keepNew[T any](place **T, ask func() (T, nvml.Return)) (lost string) {
	return keep(place, func() (*T, nvml.Return) {
		value, got := ask()
		return &value, got
	})
}

// describe queries a GPU for everything but its identity.
func (s *source) describe(device nvml.Device, g *inventory.GPU) {
	for _, lost := range []string{
		keep(&g.Name, device.GetName),
		keep(&g.UUID, device.GetUUID),
		keep(&g.ComputeCapability, func() (int, nvml.Return) {
			major, minor, got := device.GetCudaComputeCapability()
			return 10*major + minor, got
		}),
		keep(&g.ComputeMode, func() (inventory.ComputeMode, nvml.Return) {
			mode, got := device.GetComputeMode()
			return modes[mode], got
		}),
		keepNew(&g.Memory, func() (inventory.Memory, nvml.Return) {
			m, got := device.GetMemoryInfo()
			return inventory.Memory{TotalBytes: m.Total, UsedBytes: m.Used, FreeBytes: m.Free}, got
		}),
		keepNew(&g.Utilisation, func() (inventory.Utilisation, nvml.Return) {
			u, got := device.GetUtilizationRates()
			return inventory.Utilisation{GPUPercent: u.Gpu, MemoryPercent: u.Memory}, got
		}),
		keepNew(&g.TemperatureCelsius, func() (uint32, nvml.Return) { return device.GetTemperature(nvml.TEMPERATURE_GPU) }),
		keepNew(&g.PowerMilliwatts, device.GetPowerUsage),
		keepNew(&g.PowerLimitMilliwatts, device.GetEnforcedPowerLimit),
	} {
		g.Lost = cmp.Or(g.Lost, lost)
	}
	if g.Lost == "" {
		s.describeHealth(device, g)
		g.NVLinks = links(device)
		g.Processes = processes(device)
	}
}

// describeHealth queries what only data center GPUs report.
func (s *source) describeHealth(device nvml.Device, g *inventory.GPU) {
	if s.mig {
		// The mode after the next reset counts too: the reset may be near.
		keepNew(&g.MIG, func() (bool, nvml.Return) {
			now, next, got := device.GetMigMode()
			return now == nvml.DEVICE_MIG_ENABLE || next == nvml.DEVICE_MIG_ENABLE, got
		})
	}
	keepNew(&g.ECC, func() (bool, nvml.Return) {
		now, _, got := device.GetEccMode()
		return now == nvml.FEATURE_ENABLED, got
	})
	keepNew(&g.UncorrectedErrors, func() (uint64, nvml.Return) {
		return device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})
}

var modes = map[nvml.ComputeMode]inventory.ComputeMode{
	nvml.COMPUTEMODE_DEFAULT:           inventory.ModeDefault,
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD:  inventory.ModeExclusiveThread,
	nvml.COMPUTEMODE_PROHIBITED:        inventory.ModeProhibited,
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: inventory.ModeExclusiveProcess,
}

// busID returns a GPU's PCI address, or "" if NVML does not know it.
func busID(device nvml.Device) string {
	info, got := device.GetPciInfo()
	if got != nvml.SUCCESS {
		return ""
	}
	return text(info.BusId[:])
}

// text returns the text before the terminating zero.
func text[T ~int8 | ~uint8](field []T) string {
	var bytes []byte
	for _, c := range field {
		if c == 0 {
			break
		}
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}

// links returns a GPU's NVLinks, with the PCI address of the other end if a link is active.
func links(device nvml.Device) (found []inventory.NVLink) {
	for i := range maxLinks {
		state, got := device.GetNvLinkState(i)
		if got != nvml.SUCCESS {
			continue
		}
		link := inventory.NVLink{Link: i, Active: state == nvml.FEATURE_ENABLED}
		if remote, got := device.GetNvLinkRemotePciInfo(i); link.Active && got == nvml.SUCCESS {
			link.Remote = text(remote.BusId[:])
		}
		found = append(found, link)
	}
	return found
}

// processes lists the processes that compute, then those that only draw.
func processes(device nvml.Device) (found []inventory.Process) {
	seen := map[uint32]bool{}
	add := func(graphics bool, ask func() ([]nvml.ProcessInfo, nvml.Return)) {
		running, got := ask()
		if got != nvml.SUCCESS {
			return
		}
		for _, each := range running {
			if seen[each.Pid] {
				continue
			}
			seen[each.Pid] = true
			p := inventory.Process{PID: each.Pid, Graphics: graphics}
			if each.UsedGpuMemory != notAvailable {
				used := each.UsedGpuMemory
				p.UsedBytes = &used
			}
			found = append(found, p)
		}
	}
	add(false, device.GetComputeRunningProcesses)
	add(true, device.GetGraphicsRunningProcesses)
	return found
}

// pause waits, and returns false if the context has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(eventMilliseconds * time.Millisecond):
		return true
	}
}
