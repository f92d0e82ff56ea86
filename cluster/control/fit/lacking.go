package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Lacking says which replica finds no node with what it wants, if all GPUs and places of some nodes
// are free; empty: there is room for all.
func Lacking(t Table, n *Need) string {
	f := newFitting(t, n, nil)
	f.free = func(id cluster.NodeID) uint64 {
		units := Slots
		if f.gpus {
			units = min(units, len(t[id].GPUs))
		}
		return 1<<units - 1 // a bit for each
	}
	if f.placeAll() {
		return ""
	}
	return f.lacking()
}

// lacking says which replica finds no node, and what it wants.
func (f *fitting) lacking() string {
	for i := range f.need.Replicas {
		r := &f.need.Replicas[i]
		if !slices.ContainsFunc(f.assigned, func(a launch.Assignment) bool { return a.Replica == r.Number }) {
			return fmt.Sprintf("replica %d of %d finds no node with %s", r.Number, len(f.need.Replicas), r.text(f.need))
		}
	}
	return "its replicas do not fit together"
}

// text says what a replica wants.
func (r *Replica) text(of *Need) string {
	var wants []string
	place := of.Place
	if of.OwnNetwork {
		wants = append(wants, "an agent that makes networks")
	}
	if r.GPUs > 0 {
		gpus := fmt.Sprintf("%d GPUs", r.GPUs)
		for _, models := range r.Models {
			gpus += " of model " + strings.Join(models, " or ")
		}
		if r.GPUMemory > 0 {
			gpus += fmt.Sprintf(" with %d MiB each", r.GPUMemory>>20)
		}
		wants = append(wants, gpus)
	}
	if r.Millicpus > 0 {
		wants = append(wants, fmt.Sprintf("%g CPUs", float64(r.Millicpus)/1000))
	}
	if r.Memory > 0 {
		wants = append(wants, fmt.Sprintf("%d MiB of memory", r.Memory>>20))
	}
	for _, each := range []struct{ name, value string }{{"cluster", place.Cluster}, {"shard", place.Shard}} {
		if each.value != "" {
			wants = append(wants, each.name+" "+each.value)
		}
	}
	if len(place.Hostnames) > 0 {
		wants = append(wants, "one of the names "+strings.Join(place.Hostnames[:min(5, len(place.Hostnames))], ", "))
	}
	if len(wants) == 0 {
		return "a free place"
	}
	return strings.Join(wants, ", ")
}
