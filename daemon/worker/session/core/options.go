package core

import (
	"log/slog"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Shared is memory of the program that this process has too: the pages of a file.
type Shared interface {
	// Memory is the range that was asked for.
	Memory() []byte
	Close() error
}

// Options are what a session is made of.
type Options struct {
	Backend gpu.Backend
	// Visible are the backend's ordinals of the session's GPUs, in the session's order; nil: all.
	Visible []int
	// Program reads and writes the memory of the program.
	Program Program
	Arena   Arena
	Answers Answers
	// Backing puts what a restored session has in memory behind its addresses; nil for a backend's
	// plain memory.
	Backing func(ordinal int, memory gpu.Memory) heap.Backing
	// Share maps memory of the program in this process, where it is shared with a file; nil where
	// there is no way.
	Share func(r gpu.Range) (Shared, error)
	// Sharing is where sessions of the same user find each other's exports.
	Sharing ipc.Dir
	// Patience is how long a restored session waits for others whose memory it has; 0 for a minute.
	Patience time.Duration
	// Getenv reads the program's environment, for rank and world size; nil for none.
	Getenv func(name string) string
	Logger *slog.Logger
}

// Program is the program's memory.
type Program interface {
	// Memory returns the program's memory as it is reached while the thread of a reply slot waits.
	// NoThread stands for work that no thread waits for; it fails where copying takes the program's
	// help.
	Memory(slot uint32) gpu.HostMemory
}

// NoThread is the slot of calls that no thread waits for.
const NoThread = ^uint32(0)

// Arena is the pinned memory that program and worker share at one address.
type Arena interface {
	heap.Store
	// Address is where both have it.
	Address() uint64
	// Bytes is all of it; pages that are not reserved must not be touched.
	Bytes() []byte
}

// Answers is the way back to the program.
type Answers interface {
	// Reply completes a waiting call.
	Reply(slot uint32, sequence uint64, code abi.Result, data []byte)
	// Fail stores the error of a call that no thread waits for; a sticky one is returned by every
	// later call.
	Fail(code abi.Result)
	// Capturing says how many streams are being captured.
	Capturing(streams int)
	// Full asks the program to post no more work for now, or to go on.
	Full(full bool)
	// Complete stores an event's record count in its completion word.
	Complete(word uint32, count uint64)
	// Callback asks the program to run a function; abi.NotReady when the ring is full.
	Callback(callback wire.Callback) error
	// Print passes on what kernels print.
	Print(text []byte)
}
