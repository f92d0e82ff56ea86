package ledger

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is one 64-bit word of the file. Atomic operations on words order the processes that share
// the mapping.
type word = atomic.Uint64

// The header: magic, version and number of GPUs, capacities, counts of grants, number of slots ever
// used; per slot a bit for standby and a bit for a wanted standby slot, with a count of such
// requests; per slot a bit for unreclaimed memory; per GPU a count of reclaim requests;
// per slot 16 bits for its tenant; the tenants' limits. Cells follow at headerBytes.
const (
	capacityWord        = 2
	grantsWord          = capacityWord + MaxGPUs
	slotsUsedWord       = grantsWord + MaxGPUs
	standbyWord         = slotsUsedWord + 1
	wantedWord          = standbyWord + Slots/64
	requestsWord        = wantedWord + Slots/64
	unreclaimedWord     = requestsWord + 1
	reclaimRequestsWord = unreclaimedWord + Slots/64
	tenantWord          = reclaimRequestsWord + MaxGPUs
	deviceLimitWord     = tenantWord + Slots/4
	hostLimitWord       = deviceLimitWord + 1
)

// readHeader checks the header and returns the number of GPUs.
func readHeader(header [16]byte) (gpus int, err error) {
	second := binary.NativeEndian.Uint64(header[8:])
	gpus = int(second >> 32)
	if binary.NativeEndian.Uint64(header[:]) != magic || uint32(second) != version || gpus < 1 || gpus > MaxGPUs {
		return 0, ErrFormat
	}
	return gpus, nil
}

// mapWords maps the file as words. Close removes both under mu, so the slice never outlives the
// mapping.
func (l *Ledger) mapWords() error {
	rows := l.gpus
	if l.hosts {
		rows++
	}
	memory, err := unix.Mmap(int(l.file.Fd()), 0, int(fileBytes(rows)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	l.words = unsafe.Slice((*word)(unsafe.Pointer(&memory[0])), len(memory)/8)
	return nil
}

func (l *Ledger) unmapWords() error {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&l.words[0])), len(l.words)*8)
	l.words = nil
	return unix.Munmap(memory)
}

func (l *Ledger) capacity(gpu int) *word { return &l.words[capacityWord+gpu] }

// grants counts granted reservations.
func (l *Ledger) grants(gpu int) *word { return &l.words[grantsWord+gpu] }

// reclaimRequests counts reclaim requests on a GPU.
func (l *Ledger) reclaimRequests(gpu int) *word { return &l.words[reclaimRequestsWord+gpu] }

// tenants returns the word with a slot's tenant, and where it is in the word.
func (l *Ledger) tenants(slot int) (*word, int) { return &l.words[tenantWord+slot/4], slot % 4 * 16 }

// deviceLimit is what one tenant may have of each GPU; 0: no limit.
func (l *Ledger) deviceLimit() *word { return &l.words[deviceLimitWord] }

// hostLimit is what one tenant may have of host memory; 0: not fixed.
func (l *Ledger) hostLimit() *word { return &l.words[hostLimitWord] }

// host is what a slot holds of host memory; only if hosts is set.
func (l *Ledger) host(slot int) *word { return &l.words[cell(l.gpus, slot)] }

// hostClaim is what a slot is about to reserve of host memory, while undecided; only if hosts is
// set.
func (l *Ledger) hostClaim(slot int) *word { return &l.words[cell(l.gpus, slot)+1] }

// slotsUsed is one more than the highest slot that ever reserved, so that sums can skip the others.
func (l *Ledger) slotsUsed() *word { return &l.words[slotsUsedWord] }

// held is what a slot holds for its program.
func (l *Ledger) held(gpu, slot int) *word { return &l.words[cell(gpu, slot)] }

// claim is what a slot is about to reserve, while undecided.
func (l *Ledger) claim(gpu, slot int) *word { return &l.words[cell(gpu, slot)+1] }

// own is what a slot holds for the worker itself.
func (l *Ledger) own(gpu, slot int) *word { return &l.words[cell(gpu, slot)+2] }

// bit returns the word and the mask of a slot in a bitmap.
func (l *Ledger) bit(first, slot int) (*word, uint64) {
	return &l.words[first+slot/64], 1 << (slot % 64)
}

// standbyRequests counts requests for memory of standby slots.
func (l *Ledger) standbyRequests() uint32 { return uint32(l.words[requestsWord].Load()) }

// standbyFutex returns the futex: the lower half of the word, which comes first on all supported
// (little-endian) machines.
func (l *Ledger) standbyFutex() *uint32 { return (*uint32)(unsafe.Pointer(&l.words[requestsWord])) }

// requestStandby counts a request and wakes all sleepers.
func (l *Ledger) requestStandby() {
	l.words[requestsWord].Add(1)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(l.standbyFutex())), futexWake, math.MaxInt32, 0, 0, 0)
}

// sleep returns when the count differs from seen, or spuriously.
func (l *Ledger) sleep(seen uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(l.standbyFutex())), futexWait, uintptr(seen), 0, 0, 0)
}

// Futex operations between processes, so without FUTEX_PRIVATE_FLAG.
const (
	futexWait = 0
	futexWake = 1
)

// cell returns the index of the first word of a GPU and slot.
func cell(gpu, slot int) int { return (headerBytes + (gpu*Slots+slot)*cellBytes) / 8 }
