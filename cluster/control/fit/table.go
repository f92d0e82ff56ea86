package fit

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Table is what the placer knows of the nodes, by their number. It does not change: the leader
// makes a new one when something has.
type Table []Node

// Node is a node in a table.
type Node struct {
	Name, Cluster, Shard string
	Open                 bool
	// Millicpus and Memory are what is left.
	Millicpus, Memory uint64
	GPUs              []record.GPU
	// ChoosesGPUs is as in record.Inventory.
	ChoosesGPUs bool
	// Networks means that replicas with networks of their own can run there.
	Networks bool
	// SharesImages means that the node and others like it fetch images from each other.
	SharesImages bool
	// Launches are those with processes there; Exclusive is the one that wants the node for itself.
	Launches  []string
	Exclusive string
}

// Sends reports whether some node sends the image of a replica to others.
func (t Table) Sends(r *Replica) bool {
	return len(r.Nodes) > 0 && !r.Stays && slices.ContainsFunc(t, func(n Node) bool {
		return n.SharesImages && slices.Contains(r.Nodes, n.Name)
	})
}

// Reaches reports whether a node has the image of a replica, or can fetch it if it is sent.
func (t *Node) Reaches(r *Replica, sent bool) bool {
	return len(r.Nodes) == 0 || slices.Contains(r.Nodes, t.Name) || sent && t.SharesImages
}

// Takes reports whether a node can take a replica besides what others of its launch have got there
// already. Free GPUs are not looked at, nor where its image is.
func (t *Node) Takes(n *Need, r *Replica, has Taken) bool {
	switch {
	case !t.Open, !t.Allowed(n.Place), t.Exclusive != "" && t.Exclusive != n.Launch:
		return false
	case n.Place.WholeNodes && slices.ContainsFunc(t.Launches, func(id string) bool { return id != n.Launch }):
		return false
	case n.OwnNetwork && !t.Networks:
		return false
	case r.Millicpus+has.Millicpus > t.Millicpus, r.Memory+has.Memory > t.Memory:
		return false
	}
	return true
}

// Allowed reports whether a launch may run on a node at all.
func (t *Node) Allowed(p launch.Place) bool {
	return (p.Cluster == "" || p.Cluster == t.Cluster) && (p.Shard == "" || p.Shard == t.Shard) &&
		(len(p.Hostnames) == 0 || slices.Contains(p.Hostnames, t.Name))
}

// suits reports whether a GPU of a node will do for a replica.
func (t *Node) suits(r *Replica, gpu cluster.GPU) bool {
	if int(gpu.Index) >= len(t.GPUs) {
		return false
	}
	g := &t.GPUs[gpu.Index]
	may := t.ChoosesGPUs || len(r.HadGPUs) == 0 || slices.Contains(r.HadGPUs, g.Index)
	return may && g.Bad == "" && r.Takes(g.Name, g.MemoryBytes)
}
