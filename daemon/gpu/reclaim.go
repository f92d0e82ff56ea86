package gpu

import (
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Keeper is a Memory that reclaims freed memory only while the device is idle. Its driver waits for
// all work before it unmaps anything, and running work may depend on the caller's next request. So
// Unmap leaves the driver's mapping in place until GiveBack is called. A Map of the same range
// reuses the mapping. UnmapHost, Unalias and revoking access do wait; callers must allow for that.
type Keeper interface {
	// MapWhole is Map for memory that will be aliased or shared: the range becomes one mapping of
	// the driver, or the call fails. The error is ErrKept if unreclaimed mappings are in the way;
	// another range may work.
	MapWhole(r Range) error
	// Kept returns how many freed bytes are not reclaimed yet. They count as free.
	Kept() uint64
	// GiveBack reclaims some freed memory; done is set when nothing is left to reclaim. All devices
	// must be idle. One call takes a bounded time.
	GiveBack() (done bool, err error)
	// Gather makes a range one mapping of the driver, if it is not yet. All devices must be idle.
	Gather(r Range) error
	// Compact moves the used parts of partly freed mappings, and then reclaims all freed memory.
	// All devices must be idle.
	Compact() error
	// Wanted reports whether another process has requested unreclaimed memory since the last
	// Compact.
	Wanted() bool
	// Gathered reports whether a range is exactly one mapping of the driver.
	Gathered(r Range) bool
}

// ErrKept is returned when a range overlaps freed memory that was not reclaimed yet, because its
// device was not idle since.
var ErrKept = fmt.Errorf("freed memory in the range is not reclaimed until the GPU is idle: %w", abi.AlreadyMapped)

// ErrOwed is returned when another process holds unreclaimed memory and was asked to reclaim it:
// retry later.
var ErrOwed = fmt.Errorf("another process holds freed memory until its GPU is idle: %w", abi.OutOfMemory)
