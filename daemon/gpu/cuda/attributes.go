package cuda

import "github.com/phos-gpu/phos/hijack/abi"

// withheld are attributes that say of a device what programs under phos cannot have of it: the session refuses the calls.
var withheld = []abi.DeviceAttribute{
	abi.AttrPageableMemoryAccess, abi.AttrPageableMemoryAccessUsesHostPageTables, abi.AttrDirectManagedMemAccessFromHost,
	abi.AttrCanUseHostPointerForRegisteredMem, abi.AttrReadOnlyHostRegisterSupported, abi.AttrCooperativeMultiDeviceLaunch,
	abi.AttrHandleTypePOSIXFileDescriptorSupported,
	abi.AttrHandleTypeWIN32HandleSupported, abi.AttrHandleTypeWIN32KMTHandleSupported, abi.AttrHandleTypeFabricSupported,
	abi.AttrMemPoolSupportedHandleTypes, abi.AttrGenericCompressionSupported, abi.AttrMaxPersistingL2CacheSize,
	abi.AttrMaxAccessPolicyWindowSize, abi.AttrGPUDirectRDMAWithCUDAVMMSupported, abi.AttrGPUDirectRDMASupported,
	abi.AttrSparseCUDAArraySupported, abi.AttrDeferredMappingCUDAArraySupported, abi.AttrTimelineSemaphoreInteropSupported,
	abi.AttrClusterLaunch, abi.AttrDMABufSupported, abi.AttrIPCEventSupported, abi.AttrTensorMapAccessSupported,
	abi.AttrMulticastSupported, abi.AttrD3D12CIGSupported, abi.AttrVulkanCIGSupported, abi.AttrMemDecompressAlgorithmMask,
	abi.AttrMemDecompressMaxLength,
}

// withhold takes them out.
func withhold(attributes map[abi.DeviceAttribute]int32) {
	for _, a := range withheld {
		delete(attributes, a)
	}
}
