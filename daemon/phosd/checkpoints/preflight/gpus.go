package preflight

import (
	"fmt"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu/view"
)

// GPUs says which GPUs of a machine the programs of an image get. The zero value means those that
// they had, or the first ones if these do not exist.
type GPUs struct {
	// moved are the new ordinals by the old ones; nil: none was asked for.
	moved map[int]int
}

// Assign gives the programs of an image the wanted GPUs, by the rule of view.Assign. If none is
// wanted, they get those that they had.
func (h *Machine) Assign(m *image.Manifest, wanted []uint32) (_ GPUs, err error) {
	if len(wanted) == 0 {
		return GPUs{}, nil
	}
	var seen []view.Seen
	at := map[int]int{}
	for _, p := range m.Processes {
		if p.GPU == nil {
			continue
		}
		for i, device := range p.GPU.Devices {
			if _, known := at[device.Ordinal]; !known {
				at[device.Ordinal] = len(seen)
				seen = append(seen, view.Seen{Ordinal: device.Ordinal})
			}
			known := &seen[at[device.Ordinal]]
			known.Used = known.Used || used(p.GPU, i) > 0
		}
	}
	ordinals := make([]int, len(wanted))
	for i, ordinal := range wanted {
		ordinals[i] = int(ordinal)
	}
	var gpus GPUs
	gpus.moved, err = view.Assign(seen, ordinals, len(h.GPUs))
	return gpus, err
}

// Of returns the ordinals of the GPUs that a process gets on a machine with count GPUs, by the
// process's own ordinals.
func (g GPUs) Of(half *image.GPUHalf, count int) []int {
	had := make([]int, len(half.Devices))
	for i, device := range half.Devices {
		had[i] = device.Ordinal
	}
	if g.moved != nil {
		for i := range had {
			had[i] = g.moved[had[i]]
		}
		return had
	}
	if placed := view.Place(had, count); placed != nil {
		return placed
	}
	for i := range had {
		had[i] = i
	}
	return had
}

// Chosen returns what Of returns if GPUs were asked for, else nil.
func (g GPUs) Chosen(half *image.GPUHalf) []int {
	if g.moved == nil {
		return nil
	}
	return g.Of(half, 0)
}

// After returns the numbers by which the programs know the GPUs that they get, if they knew those
// that they had by other numbers already.
func (g GPUs) After(renumbered view.Renumbered) view.Renumbered { return renumbered.Then(g.moved) }

// String names the choice: equal ones have equal names.
func (g GPUs) String() string {
	if g.moved == nil {
		return ""
	}
	return fmt.Sprint(g.moved)
}
