package preflight

import (
	"fmt"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/gpu/view"
)

// Choice is which GPUs the programs of an image are to get.
type Choice struct {
	// Wanted are those that they get, by the rule of view.Assign; empty: those that they had.
	Wanted []uint32
	// Had are those in whose place the wanted ones come, by their numbers where the image was made.
	Had []uint32
}

// GPUs says which GPUs of a machine the programs of an image get. With the zero value, each process
// gets those that it had, or the first ones if these do not exist.
type GPUs struct {
	// moved are the new ordinals by the old ones; nil: of the zero value.
	moved map[int]int
	// Numbers are those by which the programs know the GPUs that they get.
	Numbers view.Renumbered
}

// Assign gives the programs of an image GPUs.
func (h *Machine) Assign(m *image.Manifest, of Choice) (gpus GPUs, err error) {
	seen, err := seenBy(m)
	if err != nil {
		return GPUs{}, err
	}
	had, wanted := make([]int, len(of.Had)), make([]int, len(of.Wanted))
	for i, ordinal := range of.Had {
		if had[i] = int(ordinal); had[i] >= ledger.MaxGPUs {
			return GPUs{}, fmt.Errorf("%w: no machine has a GPU %d", view.ErrAssignment, ordinal)
		}
	}
	for i, ordinal := range of.Wanted {
		wanted[i] = int(ordinal)
	}
	numbers := view.Renumbered(m.Renumbered)
	switch {
	case len(wanted) == 0:
		gpus.moved = h.places(seen)
	case len(had) == 0 && len(seen) == 0: // it has not used a GPU: it gets them as its first ones
		for number := range wanted {
			had = append(had, numbers.Of(number))
		}
		fallthrough
	default:
		gpus.moved, err = view.Assign(seen, had, wanted, len(h.GPUs))
	}
	if err != nil {
		return GPUs{}, err
	}
	gpus.Numbers = numbers.After(gpus.moved, len(h.GPUs))
	return gpus, nil
}

// places returns what becomes of GPUs that nothing is said about: they stay, or, if some of them do
// not exist here, the first GPUs take their places; nil if there are too few.
func (h *Machine) places(seen []view.Seen) map[int]int {
	moved, stay := map[int]int{}, true
	for i, s := range seen {
		moved[s.Ordinal] = i
		stay = stay && s.Ordinal < len(h.GPUs)
	}
	switch {
	case stay:
		for ordinal := range moved {
			moved[ordinal] = ordinal
		}
	case len(seen) > len(h.GPUs):
		return nil
	}
	return moved
}

// seenBy returns the GPUs that the programs of an image saw, in the order of the processes and of
// what each saw.
func seenBy(m *image.Manifest) (seen []view.Seen, err error) {
	if !view.Renumbered(m.Renumbered).Valid(ledger.MaxGPUs) {
		return nil, fmt.Errorf("%w: renumbered GPUs %v", image.ErrMalformed, m.Renumbered)
	}
	at := map[int]int{}
	for _, p := range m.Processes {
		if p.GPU == nil {
			continue
		}
		own := map[int]bool{}
		for i, device := range p.GPU.Devices {
			if device.Ordinal < 0 || device.Ordinal >= ledger.MaxGPUs || own[device.Ordinal] {
				return nil, fmt.Errorf("%w: GPU %d of pid %d", image.ErrMalformed, device.Ordinal, p.PID)
			}
			own[device.Ordinal] = true
			if _, known := at[device.Ordinal]; !known {
				at[device.Ordinal] = len(seen)
				seen = append(seen, view.Seen{Ordinal: device.Ordinal})
			}
			known := &seen[at[device.Ordinal]]
			known.Used = known.Used || used(p.GPU, i) > 0
		}
	}
	return seen, nil
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

// Moved returns what Of returns if it is not what the process had, else nil.
func (g GPUs) Moved(half *image.GPUHalf) []int {
	if g.moved == nil {
		return nil
	}
	for _, device := range half.Devices {
		if g.moved[device.Ordinal] != device.Ordinal {
			return g.Of(half, 0)
		}
	}
	return nil
}

// String names the GPUs that programs get: equal ones have equal names.
func (g GPUs) String() string { return fmt.Sprint(g.moved) }
