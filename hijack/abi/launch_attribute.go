package abi

// LaunchAttribute asks something more of a launch than its shape: a CUlaunchAttribute, laid out as
// the driver has it.
type LaunchAttribute struct {
	ID    LaunchAttributeID
	_     [4]byte
	Value [LaunchValueBytes]byte
}

// Sizes of a CUlaunchAttribute and of its value.
const (
	LaunchAttributeBytes = 72
	LaunchValueBytes     = 64
)

// LaunchAttributeID is a CUlaunchAttributeID number.
type LaunchAttributeID int32

// Launch attributes that hold neither handles nor addresses, and mean something to a device.
const (
	LaunchCooperative      LaunchAttributeID = 2
	LaunchCluster          LaunchAttributeID = 4
	LaunchClusterPolicy    LaunchAttributeID = 5
	LaunchProgrammatic     LaunchAttributeID = 6 // may begin before the kernel in front of it has ended
	LaunchPriority         LaunchAttributeID = 8
	LaunchMemSyncDomainMap LaunchAttributeID = 9
	LaunchMemSyncDomain    LaunchAttributeID = 10
	LaunchPreferredCluster LaunchAttributeID = 11
	LaunchSharedCarveout   LaunchAttributeID = 14
	LaunchNVLinkCentric    LaunchAttributeID = 16
)

// OfNodes reports whether the attribute is one of graph nodes too; the others are of launches into
// a stream.
func (id LaunchAttributeID) OfNodes() bool { return id != LaunchProgrammatic }

// Passed reports whether backends get to see the attribute.
func (id LaunchAttributeID) Passed() bool {
	switch id {
	case LaunchCooperative, LaunchCluster, LaunchClusterPolicy, LaunchProgrammatic, LaunchPriority, LaunchMemSyncDomainMap,
		LaunchMemSyncDomain, LaunchPreferredCluster, LaunchSharedCarveout, LaunchNVLinkCentric:
		return true
	}
	return false
}
