package model

// Sizes of clusters of blocks on devices that have them.
const (
	PortableCluster = 8
	LargestCluster  = 16
	firstClusters   = 90 // the first capability with clusters
)

// clusterGroups are the multiprocessors of a blank device, by the group that no cluster crosses. An
// H200 has as many.
var clusterGroups = [...]int{16, 16, 16, 16, 16, 16, 18, 18}

// Clusters reports whether the devices accept clusters of several blocks.
func (s Spec) Clusters() bool { return s.Blank && s.CC >= firstClusters }

// Multiprocessors returns the number of multiprocessors of a device.
func (s Spec) Multiprocessors() int {
	if !s.Blank {
		return multiprocessors
	}
	total := 0
	for _, n := range clusterGroups {
		total += n
	}
	return total
}

// ActiveClusters returns how many clusters fit on a device of whose multiprocessors each holds so
// many blocks.
func (s Spec) ActiveClusters(blocks, clusterBlocks int) int {
	switch {
	case clusterBlocks == 1:
		return blocks * s.Multiprocessors()
	case !s.Clusters() || clusterBlocks <= 0 || clusterBlocks > LargestCluster:
		return 0
	}
	total := 0
	for _, n := range clusterGroups {
		total += n * blocks / clusterBlocks
	}
	return total
}
