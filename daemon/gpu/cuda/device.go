package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is one GPU, its window of addresses, and what lies there.
type device struct {
	ordinal int32
	driver  *cudadrv.Driver
	window  gpu.Range
	// spare is a context that nobody uses yet, or 0. The backend's mu guards it.
	spare cudadrv.Context
	// reading is held while a kernel of ours reads the program's memory, which must stay mapped until
	// it ends.
	reading sync.RWMutex

	// kept is how many bytes of granules are not in the table. Other processes have asked for that so
	// often when it was given.
	kept     atomic.Int64
	answered atomic.Uint64

	mu       sync.Mutex // guards what follows
	table    table
	granules granules
	hosts    map[uint64]*hostMapping
	// reached are the devices whose kernels may touch the memory of this one, itself among them.
	reached []int32
	// handles are by which other processes can have its memory, and refusal why there are none.
	handles cudadrv.HandleTypes
	refusal error
}

// ErrNoDevice means that there is a driver, and no GPU.
var ErrNoDevice = fmt.Errorf("the driver has no GPU: %w", abi.NoDevice)

// ErrUnfit is in the chain of the error about a device that cannot be used.
var ErrUnfit = fmt.Errorf("GPU cannot be used: %w", abi.NotSupported)

// describe asks the driver for all that programs may ask about its devices.
func describe(driver *cudadrv.Driver) ([]gpu.DeviceInfo, error) {
	count, err := driver.DeviceGetCount()
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	if count == 0 {
		return nil, ErrNoDevice
	}
	infos := make([]gpu.DeviceInfo, count)
	for i := range infos {
		if infos[i], err = describeOne(driver, int32(i)); err != nil {
			return nil, fmt.Errorf("describe GPU %d: %w", i, err)
		}
		infos[i].DriverVersion = driver.Version
		describePeers(driver, int32(i), count, infos[i].Attributes)
	}
	return infos, nil
}

// lastAttribute is beyond all numbers of device attributes that are known.
const lastAttribute = 160

func describeOne(driver *cudadrv.Driver, device int32) (info gpu.DeviceInfo, err error) {
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
	for a := range int32(lastAttribute) {
		value, err := driver.DeviceGetAttribute(a, device)
		switch {
		case err == nil:
			info.Attributes[abi.DeviceAttribute(a)] = value
		case gpu.Code(err) != abi.InvalidValue: // that is how a driver says that it does not know one
			failed = err
		}
	}
	if err := fit(&info); err != nil {
		if failed != nil {
			return info, fmt.Errorf("ask for attributes: %w", failed)
		}
		return info, err
	}
	withhold(info.Attributes)
	info.Attributes[abi.AttrIPCEventSupported] = 1 // by what is no business of the driver's
	return info, nil
}

// computeModeProhibited and computeModeExclusive are values of abi.AttrComputeMode.
const (
	computeModeProhibited = 2
	computeModeExclusive  = 3
)

// fit refuses devices that phos cannot use.
func fit(info *gpu.DeviceInfo) error {
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

// Probe lists the GPUs of a driver without using them.
func Probe(library string) ([]gpu.DeviceInfo, error) {
	driver, err := cudadrv.Open(library)
	if err != nil {
		return nil, err
	}
	return describe(driver)
}

func (b *Backend) newDevice(ordinal int32) (*device, error) {
	d := &device{ordinal: ordinal, driver: b.driver, hosts: map[uint64]*hostMapping{}, reached: []int32{ordinal}}
	b.devices = append(b.devices, d)
	if b.infos[ordinal].Attributes[abi.AttrHandleTypePOSIXFileDescriptorSupported] != 0 {
		d.handles = cudadrv.HandleDescriptor
	}
	granule, err := b.driver.Granularity(ordinal, d.handles)
	if err != nil {
		return nil, fmt.Errorf("ask for the granularity of memory: %w", err)
	}
	if granule == 0 || gpu.ChunkBytes%granule != 0 {
		return nil, fmt.Errorf("%w: memory comes in pieces of %d bytes", ErrUnfit, granule)
	}
	return d, d.reserve(len(b.infos))
}

// leastWindowBytes is the smallest window that is tried.
const leastWindowBytes = 64 << 30

// reserve finds a window of addresses for one of so many devices: the default one if it can be had,
// then others of its size, each device's first choice its own, then smaller ones.
func (d *device) reserve(count int) error {
	most := gpu.DefaultWindow(int(d.ordinal), count).Bytes
	places := gpu.Windows(most)
	var failed error
	for bytes := most; bytes >= leastWindowBytes; bytes /= 2 {
		for slot := int(d.ordinal); slot < len(places); slot += count {
			place := places[slot]
			// Under another phosd, addresses can be had in the upper part only; half of that is left for
			// memory apart.
			_, upper := gpu.Split(place)
			for _, r := range []gpu.Range{{Address: place.Address, Bytes: bytes}, {Address: upper.Address, Bytes: min(bytes, upper.Bytes/2)}} {
				if failed = d.take(r); failed == nil {
					return nil
				}
			}
			if gpu.Code(failed).Sticky() {
				return fmt.Errorf("reserve addresses: %w", failed)
			}
		}
	}
	if d.reserveAnywhere(most) {
		return nil
	}
	return fmt.Errorf(
		"%w: no range of %d bytes of addresses is free below those of programs (%w)",
		ErrUnfit,
		uint64(leastWindowBytes),
		failed,
	)
}

// programs is from where on programs have their code and what the kernel places.
const programs = 0x5555_5555_4000

// reserveAnywhere takes what a driver likes to give, at most so much, of one that takes no wishes.
// Where programs may have something of their own, a window is of no use.
func (d *device) reserveAnywhere(most uint64) bool {
	for bytes := most; bytes >= leastWindowBytes; bytes /= 2 {
		address, err := d.driver.Reserve(bytes, 0)
		if err != nil {
			continue
		}
		window := gpu.Range{Address: address, Bytes: bytes}
		if address%gpu.ChunkBytes == 0 && window.End() <= programs {
			d.window = window
			return true
		}
		_ = d.driver.Unreserve(address, bytes) // it is of no use to anybody
	}
	return false
}

// errTaken means that the driver has given addresses to somebody else in this process.
var errTaken = fmt.Errorf("the addresses are taken: %w", abi.OutOfMemory)

// take reserves exactly a range, or nothing.
func (d *device) take(want gpu.Range) error {
	got, err := d.driver.Reserve(want.Bytes, want.Address)
	if err != nil {
		return err
	}
	if got != want.Address {
		return errors.Join(errTaken, d.driver.Unreserve(got, want.Bytes))
	}
	d.window = want
	return nil
}

// move gives a device the window that a session needs, and takes it from devices that are not in
// use: a session that was saved where there were fewer GPUs had wider ones. The backend's mu is
// held.
func (b *Backend) move(d *device, want gpu.Range) error {
	if b.using(d) {
		return fmt.Errorf("GPU %d has another address window already: %w", d.ordinal, abi.InvalidValue)
	}
	had := map[*device]gpu.Range{}
	for _, other := range b.devices {
		if w := other.window; other == d || w.Address < want.End() && want.Address < w.End() && !b.using(other) {
			had[other] = w
			if err := other.giveUp(); err != nil {
				return fmt.Errorf("give up the addresses of GPU %d: %w", other.ordinal, err)
			}
		}
	}
	err := d.take(want)
	if err == nil {
		b.infos[d.ordinal].Window = want
		return nil
	}
	for other, w := range had {
		if w.Bytes > 0 {
			_ = other.take(w) // where it cannot be had again, a session that wants it is told
		}
	}
	return &gpu.Error{
		Op: fmt.Sprintf(
			"reserve addresses %#x to %#x on GPU %d",
			want.Address,
			want.End(),
			d.ordinal,
		), Code: gpu.Code(err), Detail: err.Error(),
	}
}

// giveUp gives the window back, if there is one.
func (d *device) giveUp() error {
	if d.window.Bytes == 0 {
		return nil
	}
	if err := d.driver.Unreserve(d.window.Address, d.window.Bytes); err != nil {
		return err
	}
	d.window = gpu.Range{}
	return nil
}

// withheld are attributes that say of a device what programs under phos cannot have of it: the
// session refuses the calls.
var withheld = []abi.DeviceAttribute{
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

// withhold takes them out.
func withhold(attributes map[abi.DeviceAttribute]int32) {
	for _, a := range withheld {
		delete(attributes, a)
	}
}
