package cluster

// NodeID numbers the nodes of a cluster from 0, in the order of declaration.
type NodeID int32

// Node is a machine with GPUs of one model.
type Node struct {
	ID   NodeID
	Name string
	GPUs int

	// GPUType is the model's name, as "H100". A job that requires no type runs on any.
	GPUType string

	// GPUMemoryBytes is the memory of one GPU; 0 if unknown.
	GPUMemoryBytes int64

	// Rack names the switch of the node. Traffic between racks is the most expensive.
	Rack string

	// Links[a][b] is the bandwidth between two GPUs of the node in GB/s; nil if all are equal.
	Links [][]float64
}

// GPU is one GPU of a cluster: a node and an index on it.
type GPU struct {
	Node  NodeID
	Index int32
}

// Placement is the set of GPUs of a job, sorted by node and index.
type Placement []GPU

// Nodes returns the number of nodes of a placement.
func (p Placement) Nodes() int {
	n := 0
	for i := range p {
		if i == 0 || p[i].Node != p[i-1].Node {
			n++
		}
	}
	return n
}

// Without returns the GPUs of a placement that another one does not have.
func (p Placement) Without(other Placement) Placement {
	var left Placement
	for _, gpu := range p {
		for len(other) > 0 && other[0].before(gpu) {
			other = other[1:]
		}
		if len(other) == 0 || other[0] != gpu {
			left = append(left, gpu)
		}
	}
	return left
}
