package view

import (
	"maps"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Devices returns the devices at these ordinals as the program sees them; nil stands for all. Each
// keeps the window that it has among all of them.
func Devices(all []gpu.DeviceInfo, visible []int) []gpu.DeviceInfo {
	if visible == nil {
		return all
	}
	seen := make([]gpu.DeviceInfo, 0, len(visible))
	for _, ordinal := range visible {
		info := all[ordinal]
		info.Window = gpu.WindowOf(all, ordinal)
		info.Attributes = maps.Clone(info.Attributes)
		for _, attribute := range []abi.DeviceAttribute{abi.AttrPeers, abi.AttrPeerAtomics} {
			if bits, ok := info.Attributes[attribute]; ok {
				info.Attributes[attribute] = renumber(bits, visible)
			}
		}
		seen = append(seen, info)
	}
	return seen
}

// renumber converts a bit mask of ordinals of the machine to one of the program.
func renumber(bits int32, visible []int) (renumbered int32) {
	for i, ordinal := range visible {
		renumbered |= bits >> ordinal & 1 << i
	}
	return renumbered
}

// Place returns the ordinals of the GPUs for a restored program that had these, out of count GPUs:
// the same, or the first ones if some do not exist here. nil stands for all, in their order. It is
// also the result if there are too few GPUs, or if had is not a valid view.
func Place(had []int, count int) []int {
	if len(had) == 0 || len(had) > count {
		return nil
	}
	placed, same := make([]int, len(had)), true
	taken := map[int]bool{}
	for i, ordinal := range had {
		if ordinal < 0 || taken[ordinal] {
			return nil
		}
		taken[ordinal] = true
		same = same && ordinal < count
		placed[i] = i
	}
	if same {
		copy(placed, had)
	}
	return placed
}

// Ordinal returns the machine's ordinal of a program's GPU.
func Ordinal(visible []int, ordinal int) int {
	if ordinal < 0 || ordinal >= len(visible) {
		return ordinal
	}
	return visible[ordinal]
}
