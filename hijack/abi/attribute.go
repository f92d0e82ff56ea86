package abi

// DeviceAttribute is a CUdevice_attribute number.
type DeviceAttribute int32
