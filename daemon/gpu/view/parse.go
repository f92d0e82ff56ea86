package view

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// Variable is the name of the variable in a program's environment.
const Variable = "CUDA_VISIBLE_DEVICES"

// uuidPrefix begins a GPU's UUID, as nvidia-smi prints it.
const uuidPrefix = "GPU-"

// Parse returns the ordinals of the GPUs that a value of the variable shows, in its order. It
// follows the driver, as its manual and PyTorch's imitation of it describe. The list has ordinals,
// or UUIDs, which may be abbreviated. It ends at the first entry that names no GPU, or several. If
// a GPU occurs twice, none is visible. Instances of GPUs (MIG) do not exist here, so they name no
// GPU.
func Parse(value string, devices []gpu.DeviceInfo) []int {
	visible, seen := []int{}, map[int]bool{}
	find := byOrdinal
	if strings.HasPrefix(value, uuidPrefix) {
		find = byUUID
	}
	for entry := range strings.SplitSeq(value, ",") {
		ordinal := find(entry, devices)
		if ordinal < 0 {
			break
		}
		if seen[ordinal] {
			return []int{}
		}
		seen[ordinal] = true
		visible = append(visible, ordinal)
	}
	return visible
}

// byOrdinal returns the ordinal at the beginning of an entry, as strtol reads it: after blanks and
// a sign, up to the first character that is no digit. It is -1 if there is no such GPU.
func byOrdinal(entry string, devices []gpu.DeviceInfo) int {
	entry = strings.TrimLeft(entry, " \t\n\v\f\r")
	negative := strings.HasPrefix(entry, "-")
	if negative || strings.HasPrefix(entry, "+") {
		entry = entry[1:]
	}
	ordinal, digits := 0, 0
	for digits < len(entry) && entry[digits] >= '0' && entry[digits] <= '9' {
		ordinal = min(10*ordinal+int(entry[digits]-'0'), len(devices))
		digits++
	}
	if digits == 0 || ordinal >= len(devices) || negative && ordinal > 0 {
		return -1
	}
	return ordinal
}

// byUUID returns the ordinal of the GPU whose UUID begins with an entry; -1 if there is none, or
// more than one.
func byUUID(entry string, devices []gpu.DeviceInfo) int {
	found := -1
	if !strings.HasPrefix(entry, uuidPrefix) {
		return found
	}
	for ordinal := range devices {
		if !strings.HasPrefix(uuidText(devices[ordinal].UUID), entry) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = ordinal
	}
	return found
}

// uuidText formats a UUID as nvidia-smi does.
func uuidText(id [16]byte) string {
	return fmt.Sprintf("%s%x-%x-%x-%x-%x", uuidPrefix, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
