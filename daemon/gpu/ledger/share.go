package ledger

import "fmt"

// DeviceKey is the setting of a tenant's share of a GPU.
const DeviceKey = "users.device_memory"

// holdings is what is in use of a GPU, as one slot's tenant sees it. Claims are included.
type holdings struct {
	// mine is what the tenant's slots have, all what all slots have but those in standby, which exit
	// when memory is needed.
	mine, all, capacity uint64
	// others has the other tenants that have anything.
	others map[uint16]struct{}
	// mineClaimed and claimed are set if another slot's claim is in mine, or in all.
	mineClaimed, claimed bool
}

// holdings sums up a GPU for a slot. What the slot itself claims is left out.
func (l *Ledger) holdings(gpu, slot int) holdings {
	h := holdings{capacity: l.capacity(gpu).Load(), others: make(map[uint16]struct{})}
	tenant := l.tenant(slot)
	for each := range l.usedSlots() {
		claimed := uint64(0)
		if each != slot {
			claimed = l.claim(gpu, each).Load() // before the total, as in others
		}
		if has := claimed + l.total(gpu, each); has > 0 && !l.inStandby(each) {
			h.add(tenant, l.tenant(each), has, claimed > 0)
		}
	}
	return h
}

// add counts what a slot of a tenant has, for tenant mine.
func (h *holdings) add(mine, tenant uint16, has uint64, claimed bool) {
	h.all += has
	h.claimed = h.claimed || claimed
	switch tenant {
	case mine:
		h.mine += has
		h.mineClaimed = h.mineClaimed || claimed
	case 0: // root's programs take no part of what users share
	default:
		h.others[tenant] = struct{}{}
	}
}

// share is how much of a GPU a tenant may have if no limit is set: all while no other tenant has
// any of it. Otherwise it is as much as then is still free, so that something stays for the next
// user, and at least as much as each would get if all got the same.
func (h *holdings) share() uint64 {
	if len(h.others) == 0 {
		return h.capacity
	}
	free := h.capacity - min(h.all, h.capacity)
	return max(h.capacity/uint64(len(h.others)+1), (h.mine+free)/2)
}

// checkShare returns a *ShareError if a reservation, which is claimed already, exceeds what the
// slot's tenant may have. undecided is set if the answer depends on claims of other slots.
func (l *Ledger) checkShare(gpu, slot int, bytes uint64) (undecided bool, err error) {
	if l.tenant(slot) == 0 {
		return false, nil
	}
	h := l.holdings(gpu, slot)
	limit, undecided := l.deviceLimit().Load(), h.mineClaimed
	if limit == 0 {
		limit, undecided = h.share(), h.claimed
	}
	if bytes > limit || h.mine > limit-bytes {
		return undecided, &ShareError{
			Key: DeviceKey, What: fmt.Sprintf("GPU %d", gpu), Bytes: bytes, Used: h.mine, Limit: limit,
		}
	}
	return false, nil
}

// Share returns how much of a GPU the tenant of a slot has, and may have. limited is false for
// slots without a tenant.
func (l *Ledger) Share(gpu, slot int) (used, limit uint64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, slot) != nil || l.tenant(slot) == 0 {
		return 0, 0, false
	}
	h := l.holdings(gpu, slot)
	if limit = l.deviceLimit().Load(); limit == 0 {
		limit = h.share()
	}
	return h.mine, limit, true
}

// Within returns how much of a GPU's free bytes a slot's tenant may still reserve.
func (l *Ledger) Within(gpu, slot int, free uint64) uint64 {
	used, limit, limited := l.Share(gpu, slot)
	if !limited {
		return free
	}
	return min(free, limit-min(used, limit))
}
