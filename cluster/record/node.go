package record

import (
	"fmt"
	"slices"
	"time"
)

// Node is what the store keeps of a node. The leader writes it. Whether its agent answers now is
// not in it: only the leader knows that.
type Node struct {
	Name   string    `json:"name"`
	Joined time.Time `json:"joined"`
	// Key is the fingerprint of the node's certificate. A node that was removed, or has joined
	// again, is not known by an earlier one.
	Key string `json:"key"`

	Cluster string            `json:"cluster,omitempty"`
	Shard   string            `json:"shard,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Cordoned means that it gets nothing new, Draining that what it has is to go.
	Cordoned bool `json:"cordoned,omitempty"`
	Draining bool `json:"draining,omitempty"`

	// What its agent has said last.
	Address   string    `json:"address,omitempty"`
	BootID    string    `json:"boot_id,omitempty"`
	Version   string    `json:"version,omitempty"`
	Inventory Inventory `json:"inventory,omitzero"`

	// Gone means that the leader has given it up: certainly nothing of its launches runs there.
	Gone   bool      `json:"gone,omitempty"`
	GoneAt time.Time `json:"gone_at,omitzero"`

	Events []Event `json:"events,omitempty"`
}

// Inventory is what a node has.
type Inventory struct {
	CPUs        int    `json:"cpus"`
	MemoryBytes uint64 `json:"memory_bytes"`
	GPUs        []GPU  `json:"gpus,omitempty"`
	OS          string `json:"os,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	Phosd       string `json:"phosd,omitempty"`
	PhosdError  string `json:"phosd_error,omitempty"`
	// ChoosesGPUs means that what it restores gets the GPUs that it is given, not those that it had.
	ChoosesGPUs bool `json:"chooses_gpus,omitempty"`
	// ImagesPort is where its agent serves images to other nodes; 0: nowhere, and it fetches none.
	ImagesPort int `json:"images_port,omitempty"`
	// SavesTogether means that its agent and phosd save replicas in one cut with others.
	SavesTogether bool `json:"saves_together,omitempty"`
	// Networks means that its agent makes networks of launches.
	Networks bool `json:"networks,omitempty"`
}

// Equal reports whether two inventories are the same.
func (i Inventory) Equal(other Inventory) bool {
	return i.CPUs == other.CPUs && i.MemoryBytes == other.MemoryBytes && i.OS == other.OS && i.Kernel == other.Kernel &&
		i.Phosd == other.Phosd && i.PhosdError == other.PhosdError && i.ChoosesGPUs == other.ChoosesGPUs &&
		i.ImagesPort == other.ImagesPort && i.SavesTogether == other.SavesTogether &&
		i.Networks == other.Networks && slices.Equal(i.GPUs, other.GPUs)
}

// GPU is a GPU of a node.
type GPU struct {
	Index       int    `json:"index"`
	Name        string `json:"name"`
	UUID        string `json:"uuid"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Software    bool   `json:"software,omitempty"`
	// Foreign counts processes on it that are not those of launches.
	Foreign int `json:"foreign,omitempty"`
	// Bad says why it cannot be used; empty: it can.
	Bad string `json:"bad,omitempty"`
}

// nodeVersion is the version that Encode writes. Version 1 knew neither a choice of GPUs nor
// a port for images, and version 2 no saves in one cut.
const nodeVersion = 3

// Encode returns the value for the store.
func (n *Node) Encode() []byte { return encode("node", nodeVersion, n) }

// DecodeNode reads a value of the store.
func DecodeNode(text []byte) (Node, error) {
	var n Node
	if err := decode(text, "node", nodeVersion, &n); err != nil {
		return Node{}, err
	}
	if n.Name == "" {
		return Node{}, fmt.Errorf("node: %w: it has no name", ErrDamaged)
	}
	return n, nil
}

// AddEvent appends an event, and forgets the oldest ones.
func (n *Node) AddEvent(e Event) {
	n.Events = appendEvent(n.Events, e)
}
