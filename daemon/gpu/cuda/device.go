package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda/devicelist"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is one GPU, its window of addresses, and what is mapped there.
type device struct {
	ordinal int32
	driver  *cudadrv.Driver
	window  gpu.Range
	// prepared is a context created in advance, or 0. The backend's mu guards it.
	prepared cudadrv.Context
	// reading is held while a kernel of this package reads the program's memory, so that it is not
	// unmapped.
	reading sync.RWMutex

	// reclaimable is the number of bytes of mappings that are not assigned. requestsSeen is the
	// ledger's count of reclaim requests at the last Compact.
	reclaimable  atomic.Int64
	requestsSeen atomic.Uint64

	mu       sync.Mutex // guards what follows
	table    table
	mappings mappings
	hosts    map[uint64]*hostMapping
	// accessors are the devices whose kernels may access the memory of this one, including itself.
	accessors []int32
	// handleTypes are the handle types for sharing memory with other processes; noHandles is why
	// there are none.
	handleTypes cudadrv.HandleTypes
	noHandles   error
}

// ErrUnfit is in the error chain when a device cannot be used.
var ErrUnfit = devicelist.ErrUnfit

// Probe lists the GPUs of a driver without using them.
func Probe(library string) ([]gpu.DeviceInfo, error) {
	driver, err := cudadrv.Open(library)
	if err != nil {
		return nil, err
	}
	return devicelist.List(driver)
}

// newDevice adds a device and reserves its window.
func (b *Backend) newDevice(ordinal int32) (*device, error) {
	d := &device{ordinal: ordinal, driver: b.driver, hosts: map[uint64]*hostMapping{}, accessors: []int32{ordinal}}
	b.devices = append(b.devices, d)
	if b.infos[ordinal].Attributes[abi.AttrHandleTypePOSIXFileDescriptorSupported] != 0 {
		d.handleTypes = cudadrv.HandleDescriptor
	}
	granule, err := b.driver.Granularity(ordinal, d.handleTypes)
	if err != nil {
		return nil, fmt.Errorf("query the granularity of memory: %w", err)
	}
	if granule == 0 || gpu.ChunkBytes%granule != 0 {
		return nil, fmt.Errorf("%w: its memory granularity is %d bytes", ErrUnfit, granule)
	}
	return d, d.reserveWindow(len(b.infos))
}

// minWindowBytes is the smallest window that reserveWindow tries.
const minWindowBytes = 64 << 30

// reserveWindow reserves a window of addresses for one of count devices. It tries the default
// window, then others of the same size that are not another device's default, then smaller ones.
func (d *device) reserveWindow(count int) error {
	maxBytes := gpu.DefaultWindow(int(d.ordinal), count).Bytes
	places := gpu.Windows(maxBytes)
	var failed error
	for bytes := maxBytes; bytes >= minWindowBytes; bytes /= 2 {
		for slot := int(d.ordinal); slot < len(places); slot += count {
			place := places[slot]
			// Under another phosd, a program can reserve addresses in the upper part only. Half of that is
			// left for private memory.
			_, upper := gpu.SplitWindow(place)
			for _, r := range []gpu.Range{
				{Address: place.Address, Bytes: bytes},
				{Address: upper.Address, Bytes: min(bytes, upper.Bytes/2)},
			} {
				if failed = d.reserveExact(r); failed == nil {
					return nil
				}
			}
			if gpu.Code(failed).Sticky() {
				return fmt.Errorf("reserve addresses: %w", failed)
			}
		}
	}
	if d.reserveAnywhere(maxBytes) {
		return nil
	}
	return fmt.Errorf("%w: no free range of %d bytes of addresses below the program (%w)",
		ErrUnfit, uint64(minWindowBytes), failed)
}

// programsBegin is the lowest address of a program's code and of the kernel's mmap area.
const programsBegin = 0x5555_5555_4000

// reserveAnywhere reserves up to maxBytes at an address that the driver chooses, for drivers that
// ignore hints. The window is useless where the program may have memory.
func (d *device) reserveAnywhere(maxBytes uint64) bool {
	for bytes := maxBytes; bytes >= minWindowBytes; bytes /= 2 {
		address, err := d.driver.Reserve(bytes, 0)
		if err != nil {
			continue
		}
		window := gpu.Range{Address: address, Bytes: bytes}
		if address%gpu.ChunkBytes == 0 && window.End() <= programsBegin {
			d.window = window
			return true
		}
		_ = d.driver.Unreserve(address, bytes)
	}
	return false
}

// errTaken is returned when addresses are already reserved in this process.
var errTaken = fmt.Errorf("the addresses are in use: %w", abi.OutOfMemory)

// reserveExact reserves exactly a range, or nothing.
func (d *device) reserveExact(want gpu.Range) error {
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

// moveWindow moves a device's window to want, and releases overlapping windows of unused devices. A
// session that was saved on a machine with fewer GPUs has wider windows. The backend's mu is held.
func (b *Backend) moveWindow(d *device, want gpu.Range) error {
	if b.inUse(d) {
		return fmt.Errorf("GPU %d is in use with another address window: %w", d.ordinal, abi.InvalidValue)
	}
	had := map[*device]gpu.Range{}
	for _, other := range b.devices {
		if w := other.window; other == d || w.Address < want.End() && want.Address < w.End() && !b.inUse(other) {
			had[other] = w
			if err := other.releaseWindow(); err != nil {
				return fmt.Errorf("release the addresses of GPU %d: %w", other.ordinal, err)
			}
		}
	}
	err := d.reserveExact(want)
	if err == nil {
		b.infos[d.ordinal].Window = want
		return nil
	}
	for other, w := range had {
		if w.Bytes > 0 {
			_ = other.reserveExact(w) // on failure, the next NewContext on that device reports it
		}
	}
	op := fmt.Sprintf("reserve addresses %#x to %#x on GPU %d", want.Address, want.End(), d.ordinal)
	return &gpu.Error{Op: op, Code: gpu.Code(err), Detail: err.Error()}
}

// releaseWindow releases the window, if there is one.
func (d *device) releaseWindow() error {
	if d.window.Bytes == 0 {
		return nil
	}
	if err := d.driver.Unreserve(d.window.Address, d.window.Bytes); err != nil {
		return err
	}
	d.window = gpu.Range{}
	return nil
}
