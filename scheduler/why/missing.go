package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Missing returns what the cluster has and what a job asks for, if it can never run there; "" if it
// can. scheduler.ErrTooLarge is the engine's word for that.
func Missing(e *scheduler.Engine, f *cluster.Job) string {
	if e.Fits(f) {
		return ""
	}
	w := Wants{GPUs: f.GPUs, Fewest: f.GPUs, Most: f.GPUs, Share: f.Share}
	w.GPUType, w.GPUMemoryBytes = f.GPUType, f.GPUMemoryBytes
	if f.MaxGPUs > 0 {
		w.Fewest, w.Most = f.MinGPUs, f.MaxGPUs
	}
	return fmt.Sprintf("it asks for %s; the cluster has %s", w.text(), inventory(e.Nodes()))
}

// maxKinds is how many kinds of GPUs a text names.
const maxKinds = 6

// inventory returns the GPUs of a cluster by kind: "16 of type H100 (80 GiB), 8 of type A100".
func inventory(nodes []cluster.Node) string {
	type kind struct {
		gpuType string
		bytes   int64
	}
	counts := map[kind]int{}
	var kinds []kind
	for i := range nodes {
		k := kind{nodes[i].GPUType, nodes[i].GPUMemoryBytes}
		if counts[k] == 0 && nodes[i].GPUs > 0 {
			kinds = append(kinds, k)
		}
		counts[k] += nodes[i].GPUs
	}
	if len(kinds) == 0 {
		return "no GPUs"
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return counts[b] - counts[a] })
	var parts []string
	for _, k := range kinds[:min(len(kinds), maxKinds)] {
		text := words.CountOf(counts[k], "GPU")
		if k.gpuType != "" {
			text = fmt.Sprintf("%d %s", counts[k], words.Clip(k.gpuType))
		}
		if k.bytes > 0 {
			text += " (" + words.Bytes(uint64(k.bytes)) + ")"
		}
		parts = append(parts, text)
	}
	if more := len(kinds) - maxKinds; more > 0 {
		parts = append(parts, words.CountOf(more, "other kind"))
	}
	return strings.Join(parts, ", ")
}
