package cluster

// NodeID numbers the nodes of a cluster from 0, in the order in which they were declared. It says
// nothing of a node's health.
type NodeID int32

// Node is a machine with GPUs of one kind.
type Node struct {
	ID   NodeID
	Name string
	GPUs int

	// GPUType is the model's name, as "H100". A job that names no type takes any.
	GPUType string

	// GPUMemoryBytes is what one GPU holds; 0 where nobody said.
	GPUMemoryBytes int64

	// Rack names the switch that the node hangs from. Traffic between racks is the dearest.
	Rack string

	// Links are the bandwidths between each two GPUs of the node, in GB/s, Links[a][b]; nil where all
	// are alike.
	Links [][]float64
}

// GPU is one GPU of a cluster: a node and an index on it.
type GPU struct {
	Node  NodeID
	Index int32
}

// Placement is the set of GPUs that a job runs on, ordered by node and index.
type Placement []GPU

// Nodes counts the machines of a placement.
func (p Placement) Nodes() int {
	n := 0
	for i := range p {
		if i == 0 || p[i].Node != p[i-1].Node {
			n++
		}
	}
	return n
}
