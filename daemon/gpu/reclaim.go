package gpu

import (
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ReclaimableMemory is a Memory that reclaims freed memory only while the device is idle. Its
// driver waits for all work before it unmaps anything, and running work may depend on the caller's
// next request. So Unmap leaves the driver's mapping in place until Reclaim is called. A Map of the
// same range reuses the mapping. UnmapHost, Unalias and revoking access do wait; callers must allow
// for that.
type ReclaimableMemory interface {
	// MapWhole is Map for memory that will be aliased or shared: the range becomes one mapping of the
	// driver, or the call fails. The error is ErrNotReclaimed if unreclaimed mappings are in the way;
	// another range may work.
	MapWhole(r Range) error
	// Reclaimable returns how many freed bytes are not reclaimed yet. They count as free.
	Reclaimable() uint64
	// Reclaim reclaims some freed memory; done is set when nothing is left to reclaim. All devices
	// must be idle. One call takes a bounded time.
	Reclaim() (done bool, err error)
	// Consolidate makes a range one mapping of the driver, if it is not yet. All devices must be idle.
	Consolidate(r Range) error
	// Compact moves the used parts of partly freed mappings, and reclaims the rest of them. Mappings
	// that are free as a whole are left to Reclaim. All devices must be idle.
	Compact() error
	// ReclaimRequested reports whether another process has requested unreclaimed memory since the last
	// Compact.
	ReclaimRequested() bool
	// Consolidated reports whether a range is exactly one mapping of the driver.
	Consolidated(r Range) bool
}

// ErrNotReclaimed is returned when a range overlaps freed memory that was not reclaimed yet,
// because its device was not idle since.
var ErrNotReclaimed = fmt.Errorf("freed memory in the range is not reclaimed until the GPU is idle: %w",
	abi.AlreadyMapped)

// ErrReclaimPending is returned when another process holds unreclaimed memory and was asked to
// reclaim it: retry later.
var ErrReclaimPending = fmt.Errorf("another process holds freed memory until its GPU is idle: %w", abi.OutOfMemory)
