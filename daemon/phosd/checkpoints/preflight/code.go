package preflight

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/hijack/abi"
)

// codeObstacles finds code of a process that does not run on the GPU here.
func codeObstacles(p image.Process, had image.Device, has *gpu.DeviceInfo) (found []ckpt.Obstacle) {
	now := Capability(*has)
	subject := fmt.Sprintf("GPU %d", had.Ordinal)
	models := fmt.Sprintf(
		"here is %s, of compute capability %s, and pid %d was started on %s, of %s",
		has.Name,
		now,
		p.PID,
		had.Name,
		had.Capability,
	)
	if p.GPU.Code == nil {
		if now != had.Capability {
			found = append(found, ckpt.Obstacle{
				Subject: subject, Reason: models + "; this image does not say which code the program has loaded",
				Remedy: "restore on a GPU of compute capability " + had.Capability,
			})
		}
		return found
	}
	capability := int(
		has.Attributes[abi.AttrComputeCapabilityMajor]*10 + has.Attributes[abi.AttrComputeCapabilityMinor],
	)
	for _, code := range p.GPU.Code {
		if fatbin.Runs(code.Targets, capability, has.PTXOnly) {
			continue
		}
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: fmt.Sprintf("%s does not run on it: it is %s; %s", codeText(&code),
				targetsText(code.Targets, has.PTXOnly), models),
			Remedy: codeRemedy(&code, had, has),
		})
	}
	if len(found) == 0 && now != had.Capability {
		found = append(
			found,
			ckpt.Obstacle{
				Subject:  subject,
				Harmless: true,
				Reason:   models + "; all code that the program has loaded runs on both",
			},
		)
	}
	return found
}

// codeText names code: "module 3 (kernels a, b) and 4 others like it".
func codeText(code *image.Code) string {
	text := code.Name
	switch len(code.Kernels) {
	case 0:
	case 1:
		text += " (kernel " + code.Kernels[0] + ")"
	default:
		text += " (kernels " + strings.Join(code.Kernels, ", ") + ")"
	}
	switch code.Modules {
	case 0, 1:
	case 2:
		text += " and another like it"
	default:
		text += fmt.Sprintf(" and %d others like it", code.Modules-1)
	}
	return text
}

// targetsText says what code is for: "machine code for sm_80, sm_90, and no PTX".
func targetsText(targets []string, ptxOnly bool) string {
	var binaries, texts []string
	for _, target := range targets {
		if strings.HasPrefix(target, "sm_") {
			binaries = append(binaries, target)
		} else {
			texts = append(texts, target)
		}
	}
	var said []string
	if len(binaries) > 0 {
		said = append(said, "machine code for "+strings.Join(binaries, ", "))
		if ptxOnly {
			said[0] += ", which no software GPU executes"
		}
	}
	if len(texts) > 0 {
		said = append(said, "PTX for "+strings.Join(texts, ", "))
	} else {
		said = append(said, "no PTX")
	}
	return strings.Join(said, ", and ")
}

// codeRemedy names GPUs on which the code can run: also later ones if it has PTX.
func codeRemedy(code *image.Code, had image.Device, has *gpu.DeviceInfo) string {
	if strings.Contains(strings.Join(code.Targets, " "), "compute_") {
		return fmt.Sprintf("restore on %s or a later GPU", had.Name)
	}
	if has.PTXOnly {
		return "restore where phosd has real GPUs like " + had.Name + ", or build the program with PTX"
	}
	return fmt.Sprintf(
		"restore on %s or another GPU of compute capability %s, or build the program with PTX",
		had.Name,
		had.Capability,
	)
}

// driverObstacle compares the CUDA versions of the drivers. A newer driver serves all that an older
// one does; an older one only within a major version.
func driverObstacle(pid int, had image.Device, has *gpu.DeviceInfo) *ckpt.Obstacle {
	now := int(gpu.Driver([]gpu.DeviceInfo{*has}))
	if had.CUDA <= now {
		return nil
	}
	const major = 1000
	o := &ckpt.Obstacle{
		Reason: fmt.Sprintf(
			"its driver serves CUDA %s, and pid %d was started on one that serves %s",
			inventory.CUDAText(now),
			pid,
			inventory.CUDAText(had.CUDA),
		),
	}
	if had.CUDA/major == now/major {
		o.Reason += ": code that is too new for it will be refused by it"
		o.Harmless = true
		return o
	}
	o.Remedy = "install a driver that serves CUDA " + inventory.CUDAText(had.CUDA/major*major) + " or later"
	return o
}
