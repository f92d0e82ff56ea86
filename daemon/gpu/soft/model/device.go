package model

import (
	"crypto/sha256"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// firstBus is the PCI bus of device 0; the others follow it.
const firstBus = 0x40

// Devices describes the devices in ordinal order. The result depends only on the Spec.
func (s Spec) Devices() []gpu.DeviceInfo {
	devices := make([]gpu.DeviceInfo, s.Count)
	for ordinal := range devices {
		devices[ordinal] = gpu.DeviceInfo{
			Name:        s.Name,
			UUID:        uuid(s.Name, ordinal),
			MemoryBytes: s.MemoryBytes,
			Attributes:  s.attributes(ordinal),

			DriverVersion: s.Driver,
			PTXOnly:       !s.Blank,
		}
	}
	return devices
}

// uuid returns a stable UUID in the format of a name-based one.
func uuid(name string, ordinal int) (id [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "phos software GPU %d %s", ordinal, name))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// attributes returns the attributes of one device. Features that the software GPU lacks are 0, even
// if real devices of the capability have them, so that programs avoid them.
func (s Spec) attributes(ordinal int) map[abi.DeviceAttribute]int32 {
	table := make(map[abi.DeviceAttribute]int32, len(fixedAttributes)+16)
	for attribute, value := range fixedAttributes {
		table[attribute] = value
	}
	table[abi.AttrPeers] = int32(1<<s.Count-1) &^ (1 << ordinal)
	table[abi.AttrPeerAtomics] = table[abi.AttrPeers]
	l := s.Limits()
	table[abi.AttrComputeCapabilityMajor] = int32(s.CC / 10)
	table[abi.AttrComputeCapabilityMinor] = int32(s.CC % 10)
	table[abi.AttrMultiprocessorCount] = int32(s.Multiprocessors())
	if s.Clusters() {
		table[abi.AttrClusterLaunch], table[abi.AttrTensorMapAccessSupported] = 1, 1
	}
	table[abi.AttrPCIBusID] = int32(firstBus + ordinal)
	table[abi.AttrMaxThreadsPerMultiprocessor] = int32(l.Threads)
	table[abi.AttrMaxBlocksPerMultiprocessor] = int32(l.Blocks)
	table[abi.AttrMaxSharedMemoryPerMultiprocessor] = int32(l.SharedBytes)
	table[abi.AttrMaxSharedMemoryPerBlockOptin] = int32(l.BlockSharedBytes)
	table[abi.AttrReservedSharedMemoryPerBlock] = int32(l.reservedBytes)
	return table
}
