package abi

// LaunchAttribute is a CUlaunchAttribute, in the driver's layout.
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

// LaunchAttributeID is a CUlaunchAttributeID.
type LaunchAttributeID int32

// Launch attributes that are relevant to a device and contain no handles or addresses.
const (
	LaunchCooperative      LaunchAttributeID = 2
	LaunchCluster          LaunchAttributeID = 4
	LaunchClusterPolicy    LaunchAttributeID = 5
	LaunchProgrammatic     LaunchAttributeID = 6 // may begin before the previous kernel has ended
	LaunchPriority         LaunchAttributeID = 8
	LaunchMemSyncDomainMap LaunchAttributeID = 9
	LaunchMemSyncDomain    LaunchAttributeID = 10
	LaunchPreferredCluster LaunchAttributeID = 11
	LaunchSharedCarveout   LaunchAttributeID = 14
	LaunchNVLinkCentric    LaunchAttributeID = 16
)

// OfNodes reports whether the attribute also applies to graph nodes. The others apply only to
// launches into a stream.
func (id LaunchAttributeID) OfNodes() bool { return id != LaunchProgrammatic }

// Passed reports whether the attribute is passed to backends.
func (id LaunchAttributeID) Passed() bool {
	switch id {
	case LaunchCooperative, LaunchCluster, LaunchClusterPolicy, LaunchProgrammatic, LaunchPriority, LaunchMemSyncDomainMap,
		LaunchMemSyncDomain, LaunchPreferredCluster, LaunchSharedCarveout, LaunchNVLinkCentric:
		return true
	}
	return false
}
