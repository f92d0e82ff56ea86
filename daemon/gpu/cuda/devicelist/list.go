// Package devicelist describes the GPUs of a driver as gpu.DeviceInfo. It refuses devices that phos
// cannot use, and removes attributes of features that phos does not support. Tested by
// tests/nested.
package devicelist

import (
	"fmt"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrNoDevice is returned when there is a driver, but no GPU.
var ErrNoDevice = fmt.Errorf("the driver has no GPU: %w", abi.NoDevice)

// ErrUnfit is in the error chain when a device cannot be used.
var ErrUnfit = fmt.Errorf("GPU cannot be used: %w", abi.NotSupported)

// List returns what programs may query about the devices of a driver.
func List(driver *cudadrv.Driver) ([]gpu.DeviceInfo, error) {
	count, err := driver.DeviceGetCount()
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	if count == 0 {
		return nil, ErrNoDevice
	}
	infos := make([]gpu.DeviceInfo, count)
	for i := range infos {
		if infos[i], err = describe(driver, int32(i)); err != nil {
			return nil, fmt.Errorf("describe GPU %d: %w", i, err)
		}
		infos[i].DriverVersion = driver.Version
		describePeers(driver, int32(i), count, infos[i].Attributes)
	}
	return infos, nil
}

// attributeCount is greater than all known numbers of device attributes.
const attributeCount = 160

// describe returns the properties and attributes of one device.
func describe(driver *cudadrv.Driver, device int32) (info gpu.DeviceInfo, err error) {
	if info.Name, err = driver.DeviceName(device); err != nil {
		return info, err
	}
	if info.UUID, err = driver.DeviceUUID(device); err != nil {
		return info, err
	}
	if info.MemoryBytes, err = driver.DeviceTotalMem(device); err != nil {
		return info, err
	}
	info.Attributes = map[abi.DeviceAttribute]int32{}
	var failed error
	for a := range int32(attributeCount) {
		value, err := driver.DeviceGetAttribute(a, device)
		switch {
		case err == nil:
			info.Attributes[abi.DeviceAttribute(a)] = value
		case gpu.Code(err) != abi.InvalidValue: // the driver does not know the attribute
			failed = err
		}
	}
	if err := checkUsable(&info); err != nil {
		if failed != nil {
			return info, fmt.Errorf("query attributes: %w", failed)
		}
		return info, err
	}
	removeUnsupported(info.Attributes)
	info.Attributes[abi.AttrIPCEventSupported] = 1 // phos implements IPC events without the driver
	return info, nil
}

// computeModeProhibited and computeModeExclusive are values of abi.AttrComputeMode.
const (
	computeModeProhibited = 2
	computeModeExclusive  = 3
)

// checkUsable returns an error for devices that phos cannot use.
func checkUsable(info *gpu.DeviceInfo) error {
	switch {
	case info.Attributes[abi.AttrVirtualAddressManagementSupported] == 0:
		return fmt.Errorf(
			"%w: %s has no virtual memory management; the driver must be 11.2 or later",
			ErrUnfit,
			info.Name,
		)
	case info.Attributes[abi.AttrUnifiedAddressing] == 0:
		return fmt.Errorf("%w: %s does not share addresses with the host", ErrUnfit, info.Name)
	case info.Attributes[abi.AttrComputeMode] == computeModeProhibited:
		return fmt.Errorf(
			"%w: %s is in compute mode prohibited; nvidia-smi -c 0 lets programs use it",
			ErrUnfit,
			info.Name,
		)
	case info.Attributes[abi.AttrComputeMode] == computeModeExclusive:
		return fmt.Errorf(
			"%w: %s is in compute mode exclusive, for one process; nvidia-smi -c 0 lets several use it",
			ErrUnfit,
			info.Name,
		)
	}
	return nil
}

// describePeers sets the attributes of which devices' memory a device can access.
func describePeers(driver *cudadrv.Driver, device int32, count int32, attributes map[abi.DeviceAttribute]int32) {
	for other := range min(count, 31) {
		ok, err := driver.DeviceCanAccessPeer(device, other)
		if other == device || err != nil || ok == 0 {
			continue
		}
		attributes[abi.AttrPeers] |= 1 << other
		if atomics, err := driver.DeviceGetP2PAttribute(nativeAtomics, device, other); err == nil && atomics != 0 {
			attributes[abi.AttrPeerAtomics] |= 1 << other
		}
	}
}

// nativeAtomics is a CU_DEVICE_P2P_ATTRIBUTE: one device's atomic operations work in the other's
// memory.
const nativeAtomics = 3

// unsupported are attributes of features that phos does not support: the session refuses the calls.
var unsupported = []abi.DeviceAttribute{
	abi.AttrPageableMemoryAccess, abi.AttrPageableMemoryAccessUsesHostPageTables, abi.AttrDirectManagedMemAccessFromHost,
	abi.AttrCanUseHostPointerForRegisteredMem, abi.AttrReadOnlyHostRegisterSupported, abi.AttrCooperativeMultiDeviceLaunch,
	abi.AttrHandleTypeWIN32HandleSupported, abi.AttrHandleTypeWIN32KMTHandleSupported, abi.AttrHandleTypeFabricSupported,
	abi.AttrMemPoolSupportedHandleTypes, abi.AttrGenericCompressionSupported, abi.AttrMaxPersistingL2CacheSize,
	abi.AttrMaxAccessPolicyWindowSize, abi.AttrGPUDirectRDMAWithCUDAVMMSupported, abi.AttrGPUDirectRDMASupported,
	abi.AttrSparseCUDAArraySupported, abi.AttrDeferredMappingCUDAArraySupported, abi.AttrTimelineSemaphoreInteropSupported,
	abi.AttrDMABufSupported,
	abi.AttrMulticastSupported, abi.AttrD3D12CIGSupported, abi.AttrVulkanCIGSupported, abi.AttrMemDecompressAlgorithmMask,
	abi.AttrMemDecompressMaxLength,
}

// removeUnsupported deletes them.
func removeUnsupported(attributes map[abi.DeviceAttribute]int32) {
	for _, a := range unsupported {
		delete(attributes, a)
	}
}
