package pager

import (
	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Plan says how the memory of a tree of an image comes back.
func Plan(reader *contents.Reader, tree string, root int) (ckpt.MemoryPlan, error) {
	l, err := readLayout(reader, tree, root)
	if err != nil {
		return ckpt.MemoryPlan{}, err
	}
	plan := ckpt.MemoryPlan{LazyBytes: l.lazyBytes(), Early: map[string]uint64{}}
	for _, p := range l.processes {
		for why, bytes := range p.early {
			plan.Early[why] += bytes
		}
	}
	for _, entry := range l.sharedFiles() {
		plan.Early[sharedMemory] += entry.Bytes
	}
	return plan, nil
}
