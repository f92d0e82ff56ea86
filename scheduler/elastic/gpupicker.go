package elastic

import "github.com/phos-gpu/phos/scheduler/cluster"

// gpuPicker picks unused GPUs of nodes.
type gpuPicker struct {
	held []uint64 // by node, a bit for each GPU in use, or not in the supply
}

// newGPUPicker returns a picker of GPUs, by node.
func newGPUPicker(gpus []uint64) *gpuPicker {
	h := &gpuPicker{make([]uint64, len(gpus))}
	for node := range gpus {
		h.held[node] = ^gpus[node]
	}
	return h
}

// take marks a GPU as used. It returns false if it already is, by a job that shares it.
func (h *gpuPicker) take(gpu cluster.GPU) bool {
	bit := uint64(1) << gpu.Index
	if h.held[gpu.Node]&bit != 0 {
		return false
	}
	h.held[gpu.Node] |= bit
	return true
}

func (h *gpuPicker) release(gpu cluster.GPU) { h.held[gpu.Node] &^= 1 << gpu.Index }

// pick takes GPUs, of each node the lowest free indices. There must be enough.
func (h *gpuPicker) pick(r row) cluster.Placement {
	var on cluster.Placement
	for node, n := range r {
		for index := int32(0); n > 0; index++ {
			if gpu := (cluster.GPU{Node: cluster.NodeID(node), Index: index}); h.take(gpu) {
				on = append(on, gpu)
				n--
			}
		}
	}
	return on
}
