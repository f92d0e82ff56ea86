package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
)

// A tenant is a user, by a number that phosd gives it while it runs programs. All slots of a tenant
// together have a limit for each GPU, and one for pinned host memory. Slots without a tenant (0)
// are limited by neither: those of root, and all in a ledger of an older phosd.
//
// Host memory has a row of cells of its own, behind those of the GPUs. A ledger of an older phosd
// lacks it.

// ShareError is returned by a reservation that exceeds the tenant's limit.
type ShareError struct {
	// Key is the setting with the limit, What names what is limited.
	Key, What          string
	Bytes, Used, Limit uint64
}

func (e *ShareError) Error() string {
	return fmt.Sprintf("%s: this user's programs may have %d bytes of %s and have %d: cannot reserve %d",
		e.Key, e.Limit, e.What, e.Used, e.Bytes)
}

// Unwrap returns the driver's code.
func (e *ShareError) Unwrap() error { return abi.OutOfMemory }

// SetTenant names the tenant of a slot; 0: none. Only phosd calls it.
func (l *Ledger) SetTenant(slot int, tenant uint16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(0, slot) != nil {
		return
	}
	word, shift := l.tenants(slot)
	word.Store(word.Load()&^(0xffff<<shift) | uint64(tenant)<<shift)
}

// SetLimits sets what one tenant may have of each GPU, and of host memory; 0: what holdings.share
// says, or for host memory, what the caller of ReserveHost says. Only phosd calls it.
func (l *Ledger) SetLimits(deviceBytes, hostBytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.deviceLimit().Store(deviceBytes)
	l.hostLimit().Store(hostBytes)
}

// tenant returns the tenant of a slot.
func (l *Ledger) tenant(slot int) uint16 {
	word, shift := l.tenants(slot)
	return uint16(word.Load() >> shift)
}

// CountsHost reports whether the ledger accounts for host memory.
func (l *Ledger) CountsHost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts
}

// ReserveHost charges pinned host memory to a slot. free is how much of it no program has: it is
// the tenant's limit if phosd sets none. Races between the tenant's slots are decided as by
// reserve.
func (l *Ledger) ReserveHost(slot int, bytes, free uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	if err := l.check(0, slot); err != nil || !l.hosts {
		return err
	}
	l.include(slot)
	held, claim := l.host(slot), l.hostClaim(slot)
	for attempt := 0; ; attempt++ {
		claim.Store(bytes)
		undecided, err := l.checkHostShare(slot, bytes, free)
		if err == nil {
			held.Add(bytes) // before the claim is cleared: it may count twice, but is never missed
			claim.Store(0)
			return nil
		}
		claim.Store(0)
		if !undecided || attempt == maxAttempts {
			return err
		}
		// There is no notification when another process has decided.
		time.Sleep(time.Duration(rand.IntN(50*(1+attempt/10))) * time.Microsecond) //nolint:forbidigo // see above
	}
}

// checkHostShare returns a *ShareError if a reservation, which is claimed already, exceeds the
// limit of the slot's tenant. undecided is set if claims of other slots of the tenant were counted.
func (l *Ledger) checkHostShare(slot int, bytes, free uint64) (undecided bool, err error) {
	tenant, limit := l.tenant(slot), l.hostLimit().Load()
	held := l.host(slot).Load()
	if bytes > math.MaxUint64-held {
		return false, hostError(bytes, held, limit)
	}
	if tenant == 0 {
		return false, nil
	}
	if limit == 0 {
		limit = free
	}
	used := held
	for other := range l.usedSlots() {
		if other == slot || l.tenant(other) != tenant {
			continue
		}
		// Read the claim first: otherwise a claim that is granted in between would be missed.
		claimed := l.hostClaim(other).Load()
		undecided = undecided || claimed != 0
		used += claimed + l.host(other).Load()
	}
	if bytes > limit || used > limit-bytes {
		return undecided, hostError(bytes, used, limit)
	}
	return false, nil
}

// hostError returns the error for a reservation of host memory.
func hostError(bytes, used, limit uint64) error {
	return &ShareError{Key: "users.pinned_memory", What: "pinned memory", Bytes: bytes, Used: used, Limit: limit}
}

// ReleaseHost releases pinned host memory.
func (l *Ledger) ReleaseHost(slot int, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.hosts || l.check(0, slot) != nil {
		return
	}
	held := l.host(slot)
	held.Store(held.Load() - min(bytes, held.Load()))
}

// HostUsage returns the pinned host memory that a slot holds.
func (l *Ledger) HostUsage(slot int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.hosts || l.check(0, slot) != nil {
		return 0
	}
	return l.host(slot).Load()
}

// IsShare reports whether an error is a *ShareError.
func IsShare(err error) bool {
	var share *ShareError
	return errors.As(err, &share)
}
