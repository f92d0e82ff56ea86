package sessions

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
)

// errNoSlot is returned when sessions and standby workers occupy the whole ledger.
var errNoSlot = fmt.Errorf(
	"%w: all %d slots of the memory accounting are in use by programs and standby workers (workers.standby)",
	api.ErrExhausted, ledger.Slots,
)

// The ledger has a slot for each session that config admits.
const _ = uint(ledger.Slots - config.MaxSessions)

// registry holds the sessions, the users' quotas and the slots of the ledger.
type registry struct {
	limits config.Sessions

	mu       sync.Mutex // guards all below
	sessions map[uint64]*Session
	slots    [ledger.Slots]bool // true: in use, by a session or a standby worker
	perUser  map[uint32]int
	tenants  map[uint32]uint16 // the users' numbers in the ledger
	total    int               // slots of sessions
	// closed refuses new programs: phosd is being stopped.
	closed bool
}

func newRegistry(limits config.Sessions) *registry {
	return &registry{limits: limits, sessions: make(map[uint64]*Session), perUser: make(map[uint32]int), tenants: make(map[uint32]uint16)}
}

// slot is the right to have a session: a slot of the ledger, and one place of the user's quota.
type slot struct {
	uid    uint32
	number int
	// tenant is the user's number in the ledger.
	tenant uint16
	// standby is the worker that gets the session; nil: a new one.
	standby *standby.Worker
}

// check returns an error if a limit forbids one more session of the user.
func (r *registry) check(uid uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkLocked(uid)
}

// checkLocked is check. The caller holds mu.
func (r *registry) checkLocked(uid uint32) error {
	switch {
	case r.closed:
		return fmt.Errorf("%w: phosd is being stopped", api.ErrExhausted)
	case uid != 0 && r.perUser[uid] >= r.limits.PerUser:
		return fmt.Errorf("%w: sessions.per_user: this user may have %d programs at a time, and has %d",
			api.ErrExhausted, r.limits.PerUser, r.perUser[uid])
	case r.total >= r.limits.Total:
		return fmt.Errorf("%w: %d programs already run (sessions.total)", api.ErrExhausted, r.total)
	}
	return nil
}

// reserve takes a slot and a place of the user's quota, or says which limit is reached. The standby
// worker, if any, brings its own slot of the ledger.
func (r *registry) reserve(uid uint32, worker *standby.Worker) (slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checkLocked(uid); err != nil {
		return slot{}, err
	}
	var number int
	if worker != nil {
		number = worker.Slot
	} else {
		number = slices.Index(r.slots[:], false)
	}
	if number < 0 {
		return slot{}, errNoSlot
	}
	r.occupy(uid, number)
	return slot{uid: uid, number: number, tenant: r.tenant(uid), standby: worker}, nil
}

// reserveAdopted takes the slot of the ledger in which an adopted session accounts.
func (r *registry) reserveAdopted(uid uint32, number int) (slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number < 0 || number >= len(r.slots) || r.slots[number] {
		return slot{}, fmt.Errorf("%w: ledger slot %d is taken", api.ErrExhausted, number)
	}
	r.occupy(uid, number)
	return slot{uid: uid, number: number, tenant: r.tenant(uid)}, nil
}

// tenant returns the user's number in the ledger: 0 for root, which has no limit. The caller holds
// mu.
func (r *registry) tenant(uid uint32) uint16 {
	if uid == 0 || r.tenants[uid] != 0 {
		return r.tenants[uid]
	}
	taken := slices.Collect(maps.Values(r.tenants)) // at most one for each slot
	for number := uint16(1); ; number++ {
		if !slices.Contains(taken, number) {
			r.tenants[uid] = number
			return number
		}
	}
}

// occupy counts one more session. The caller holds mu.
func (r *registry) occupy(uid uint32, number int) {
	r.slots[number] = true
	r.perUser[uid]++
	r.total++
}

// release ends a reservation. The slot of the ledger must be cleared.
func (r *registry) release(given slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[given.number] = false
	r.total--
	if r.perUser[given.uid]--; r.perUser[given.uid] <= 0 {
		delete(r.perUser, given.uid)
		delete(r.tenants, given.uid)
	}
}

// reserveStandby takes a slot of the ledger for a standby worker, which counts in no quota.
func (r *registry) reserveStandby() (number int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number = slices.Index(r.slots[:], false); number < 0 {
		return 0, errNoSlot
	}
	r.slots[number] = true
	return number, nil
}

// releaseStandby ends reserveStandby. The slot must be cleared.
func (r *registry) releaseStandby(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[number] = false
}

// setClosed refuses or admits new programs.
func (r *registry) setClosed(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
}

func (r *registry) add(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s.record.Session] = s
}

func (r *registry) remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s.record.Session)
}

// has reports whether a session has not ended.
func (r *registry) has(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[s.record.Session] == s
}

// find returns a session by its number; nil if it has ended.
func (r *registry) find(id uint64) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[id]
}

// all lists the sessions in the order of their numbers.
func (r *registry) all() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.sessions), func(a, b *Session) int {
		return int(int64(a.record.Session) - int64(b.record.Session))
	})
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}
