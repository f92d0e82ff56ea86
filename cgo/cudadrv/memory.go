//go:build cgo

package cudadrv

// #include "driver.h"
import "C"

import (
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reserve reserves a range of addresses, at wanted if the driver agrees. If wanted is in use, the
// range is elsewhere.
func (d *Driver) Reserve(bytes, wanted uint64) (address uint64, err error) {
	err = result("cuMemAddressReserve", C.phos_reserve((*C.uint64_t)(&address), C.uint64_t(bytes), C.uint64_t(wanted)))
	return address, err
}

// Unreserve frees a range of addresses.
func (d *Driver) Unreserve(address, bytes uint64) error {
	return result("cuMemAddressFree", C.phos_unreserve(C.uint64_t(address), C.uint64_t(bytes)))
}

// Granularity returns the unit of allocation sizes on a device.
func (d *Driver) Granularity(device int32, kinds HandleTypes) (bytes uint64, err error) {
	err = result(
		"cuMemGetAllocationGranularity",
		C.phos_granularity((*C.uint64_t)(&bytes), C.int32_t(device), C.int32_t(kinds)),
	)
	return bytes, err
}

// Create allocates memory on a device that can be exported by some kinds of handles.
func (d *Driver) Create(bytes uint64, device int32, kinds HandleTypes) (a Allocation, err error) {
	err = result(
		"cuMemCreate",
		C.phos_create((*C.uint64_t)(&a), C.uint64_t(bytes), C.int32_t(device), C.int32_t(kinds)),
	)
	return a, err
}

// Export returns a file descriptor by which other processes can import the memory. The caller
// closes it.
func (d *Driver) Export(a Allocation) (*os.File, error) {
	var fd C.int
	if err := result("cuMemExportToShareableHandle", C.phos_export(&fd, C.uint64_t(a))); err != nil {
		return nil, err
	}
	unix.CloseOnExec(int(fd)) // the driver does not guarantee it
	return os.NewFile(uintptr(fd), "exported device memory"), nil
}

// Import imports memory that another process has exported. The file can be closed afterwards.
func (d *Driver) Import(file *os.File) (a Allocation, err error) {
	err = result("cuMemImportFromShareableHandle", C.phos_import((*C.uint64_t)(&a), C.int(file.Fd())))
	runtime.KeepAlive(file)
	return a, err
}

// Release frees memory; mappings keep it until they are unmapped.
func (d *Driver) Release(a Allocation) error {
	return result("cuMemRelease", C.phos_release(C.uint64_t(a)))
}

// Map maps memory at reserved addresses, without access rights.
func (d *Driver) Map(address, bytes uint64, a Allocation) error {
	return result("cuMemMap", C.phos_map(C.uint64_t(address), C.uint64_t(bytes), C.uint64_t(a)))
}

// Unmap removes whole mappings.
func (d *Driver) Unmap(address, bytes uint64) error {
	return result("cuMemUnmap", C.phos_unmap(C.uint64_t(address), C.uint64_t(bytes)))
}

// Allow grants devices read and write access to a mapping.
func (d *Driver) Allow(address, bytes uint64, devices []int32) error {
	for some := range slices.Chunk(devices, C.PHOS_MOST_DEVICES) {
		list, count := (*C.int32_t)(unsafe.SliceData(some)), C.int32_t(len(some))
		if err := result("cuMemSetAccess", C.phos_allow(C.uint64_t(address), C.uint64_t(bytes), list, count)); err != nil {
			return err
		}
	}
	return nil
}

// Grant sets a device's access right to a mapping.
func (d *Driver) Grant(address, bytes uint64, device int32, access Access) error {
	return result(
		"cuMemSetAccess",
		C.phos_grant(C.uint64_t(address), C.uint64_t(bytes), C.int32_t(device), C.int32_t(access)),
	)
}

// HostRegister pins host memory and maps it for devices at its own address.
func (d *Driver) HostRegister(ctx Context, memory []byte) error {
	return d.MemHostRegister(ctx, unsafe.Pointer(unsafe.SliceData(memory)), uint64(len(memory)), HostRegisterFlags)
}

// HostPin pins host memory for copies.
func (d *Driver) HostPin(ctx Context, memory []byte) error {
	return d.MemHostRegister(ctx, unsafe.Pointer(unsafe.SliceData(memory)), uint64(len(memory)), HostPinFlags)
}

// HostUnregister reverses HostRegister and HostPin.
func (d *Driver) HostUnregister(ctx Context, memory []byte) error {
	return d.MemHostUnregister(ctx, unsafe.Pointer(unsafe.SliceData(memory)))
}

// HostAddress returns the device address of registered memory.
func (d *Driver) HostAddress(ctx Context, memory []byte) (uint64, error) {
	return d.MemHostGetDevicePointer(ctx, unsafe.Pointer(unsafe.SliceData(memory)), 0)
}

// HostAlloc allocates pinned memory.
func (d *Driver) HostAlloc(ctx Context, bytes int) ([]byte, error) {
	at, err := d.MemHostAlloc(ctx, uint64(bytes), HostAllocPortable)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

// CopyIn copies to the device in a stream. For pageable memory, it returns after the driver has
// read the bytes.
func (d *Driver) CopyIn(ctx Context, to uint64, from []byte, stream Stream) error {
	return d.MemcpyHtoDAsync(ctx, to, unsafe.Pointer(unsafe.SliceData(from)), uint64(len(from)), stream)
}

// CopyOut copies from the device in a stream.
func (d *Driver) CopyOut(ctx Context, to []byte, from uint64, stream Stream) error {
	return d.MemcpyDtoHAsync(ctx, unsafe.Pointer(unsafe.SliceData(to)), from, uint64(len(to)), stream)
}

// c converts the box to C.
func (b *Box) c() C.struct_phos_box {
	return C.struct_phos_box{
		dst: C.uint64_t(b.Dst), src: C.uint64_t(b.Src),
		extent:    [3]C.uint64_t{C.uint64_t(b.Extent[0]), C.uint64_t(b.Extent[1]), C.uint64_t(b.Extent[2])},
		dst_pitch: C.uint64_t(b.DstPitch), src_pitch: C.uint64_t(b.SrcPitch),
		dst_height: C.uint64_t(b.DstHeight), src_height: C.uint64_t(b.SrcHeight),
	}
}

// CopyBox copies rows and slices in a stream.
func (d *Driver) CopyBox(ctx Context, box Box, stream Stream) error {
	c := box.c()
	return result("cuMemcpy3DAsync_v2", C.phos_copy_box(C.uint64_t(ctx), &c, C.uint64_t(stream)))
}

// CopyPeers copies rows and slices between devices in a stream.
func (d *Driver) CopyPeers(ctx Context, box Box, dst, src Context, stream Stream) error {
	c := box.c()
	return result(
		"cuMemcpy3DPeerAsync",
		C.phos_copy_peers(C.uint64_t(ctx), &c, C.uint64_t(dst), C.uint64_t(src), C.uint64_t(stream)),
	)
}
