package gpu

import (
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Keeper is a Memory whose device takes memory back only when it rests: its driver waits for all
// work before it unmaps anything, and work may wait for what whoever asked would do next. So what
// Unmap is given is kept until GiveBack says that now is the time. A Map that covers what is kept
// uses it again. UnmapHost, Unalias and taking rights away wait, and are for whoever knows that.
type Keeper interface {
	// MapWhole is Map for memory that is to be shown or shared elsewhere: it is mapped at once, or not
	// at all. The error is ErrKept where what is kept stands in the way; elsewhere there may be room.
	MapWhole(r Range) error
	// Kept is how many bytes are kept. They count as free.
	Kept() uint64
	// GiveBack gives some of what is kept to the device; none is left when it says that it has done
	// so. Nothing may be at work, on no device. It takes a while at most.
	GiveBack() (done bool, err error)
	// Gather makes what lies in a range memory that was mapped at once, if it is not, on the same
	// condition.
	Gather(r Range) error
	// Compact moves what is used of memory of which a part is kept, so that GiveBack could give back
	// all that is kept, and gives it back; on the same condition.
	Compact() error
	// Wanted reports whether another process has asked for what is kept, since Compact was called.
	Wanted() bool
	// Gathered reports whether a range is what was mapped at once.
	Gathered(r Range) bool
}

// ErrKept means that memory that was freed stands in the way, because its device did not rest
// since.
var ErrKept = fmt.Errorf("memory that was freed is kept there until the GPU rests: %w", abi.AlreadyMapped)

// ErrOwed means that another process keeps memory that was freed, and was asked for it: it may
// come.
var ErrOwed = fmt.Errorf("another process keeps freed memory until its GPU rests: %w", abi.OutOfMemory)
