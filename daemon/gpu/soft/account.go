package soft

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/hijack/abi"
)

// account tracks how much device memory is in use, so that a device is never overcommitted.
type account interface {
	reserve(ordinal int, bytes uint64) error
	release(ordinal int, bytes uint64)
	// usage counts as used what the account may not reserve.
	usage(ordinal int) (used, capacity uint64)
}

// sharedAccount is a worker's row in the machine's ledger.
type sharedAccount struct {
	ledger *ledger.Ledger
	slot   int
}

func (a *sharedAccount) reserve(ordinal int, bytes uint64) error {
	return a.ledger.Reserve(ordinal, a.slot, bytes)
}

func (a *sharedAccount) release(ordinal int, bytes uint64) { a.ledger.Release(ordinal, a.slot, bytes) }

func (a *sharedAccount) usage(ordinal int) (used, capacity uint64) {
	used, capacity = a.ledger.Usage(ordinal)
	return capacity - a.ledger.Within(ordinal, a.slot, capacity-used), capacity
}

// privateAccount is the account of a backend whose devices no other process uses.
type privateAccount struct {
	capacity uint64

	mu   sync.Mutex
	used []uint64 // by ordinal
}

// reserve adds bytes to what a device has in use, or returns abi.OutOfMemory.
func (a *privateAccount) reserve(ordinal int, bytes uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes > a.capacity-a.used[ordinal] {
		return &gpu.Error{
			Op: "map memory", Code: abi.OutOfMemory,
			Detail: fmt.Sprintf("device %d: %d bytes wanted, %d of %d in use", ordinal, bytes, a.used[ordinal], a.capacity),
		}
	}
	a.used[ordinal] += bytes
	return nil
}

func (a *privateAccount) release(ordinal int, bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[ordinal] -= min(bytes, a.used[ordinal])
}

func (a *privateAccount) usage(ordinal int) (used, capacity uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used[ordinal], a.capacity
}
