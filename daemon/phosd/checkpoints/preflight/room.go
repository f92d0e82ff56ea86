package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
)

// RoomObstacles finds GPUs with too little free memory for an image. It waits a moment, because a
// program that was just saved and stopped may still hold some.
func (h *Machine) RoomObstacles(ctx context.Context, m *image.Manifest, gpus GPUs) []ckpt.Obstacle {
	if h.Room == nil {
		return nil
	}
	over := time.After(reapTimeout)
	for {
		found, final := h.roomNow(ctx, m, gpus)
		if final {
			return found
		}
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-over:
		case <-ctx.Done():
		}
		return found
	}
}

// roomNow looks once. final means that waiting does not help.
func (h *Machine) roomNow(ctx context.Context, m *image.Manifest, gpus GPUs) (found []ckpt.Obstacle, final bool) {
	final = true
	for ordinal := range h.GPUs {
		needed := uint64(0)
		for _, p := range m.Processes {
			if p.GPU != nil {
				if i := slices.Index(gpus.Of(p.GPU, len(h.GPUs)), ordinal); i >= 0 {
					needed += used(p.GPU, i)
				}
			}
		}
		if needed == 0 {
			continue
		}
		free, total := h.Room(ctx, ordinal)
		if needed <= free {
			continue
		}
		o := ckpt.Obstacle{
			Subject: fmt.Sprintf("GPU %d", ordinal),
			Reason: fmt.Sprintf("the image needs %s of its memory, and %s of %s are free (%s)",
				sizeText(needed), sizeText(free), sizeText(total), h.GPUs[ordinal].Name),
			Remedy: "restore on a GPU with more memory",
		}
		if needed <= total {
			final = false
			o.Remedy = "end other programs that use it, or save them with pos_cli --dump; pos_cli --status lists them"
		}
		found = append(found, o)
	}
	return found, final
}

// used returns how much memory of a GPU, by the process's own ordinal, a process had. Old images
// only have the sum over all GPUs, which is used if there is one GPU.
func used(half *image.GPUHalf, ordinal int) uint64 {
	if ordinal >= len(half.Devices) {
		return 0
	}
	if half.Devices[ordinal].UsedBytes == 0 && len(half.Devices) == 1 {
		return half.MemoryBytes
	}
	return half.Devices[ordinal].UsedBytes
}

// sizeText formats bytes as GiB from 10 GiB on or if they are whole GiB, else as MiB.
func sizeText(bytes uint64) string {
	if bytes >= 10<<30 || bytes >= 1<<30 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%.4g GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20))
}
