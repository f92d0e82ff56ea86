package sessions

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
)

// errNoSlot is returned when sessions and standby workers occupy the whole ledger.
var errNoSlot = fmt.Errorf(
	"%w: all %d slots of the memory accounting are in use by programs and standby workers (workers.standby)",
	api.ErrExhausted, ledger.Slots,
)

// The ledger has a slot for each session that the settings allow.
const _ = uint(ledger.Slots - config.MaxSessions)

// registry holds the sessions and the slots of the ledger. It counts each program in its user's
// quota.
type registry struct {
	maxTotal int
	quota    *quota.Quota

	mu       sync.Mutex // guards all below
	sessions map[uint64]*Session
	// starting are the sessions whose programs may run before they are added. The channel of each is
	// closed when it is added, or its worker did not start.
	starting map[*Session]chan struct{}
	slots    [ledger.Slots]bool // true: in use, by a session or a standby worker
	tenants  map[uint32]*tenant
	total    int // slots of sessions
	// closed refuses new programs: phosd is being stopped.
	closed bool
}

// tenant is a user in the ledger.
type tenant struct {
	number   uint16 // 0 for root, which has no limit
	sessions int
}

func newRegistry(maxTotal int, programs *quota.Quota) *registry {
	return &registry{
		maxTotal: maxTotal, quota: programs, sessions: make(map[uint64]*Session),
		starting: make(map[*Session]chan struct{}), tenants: make(map[uint32]*tenant),
	}
}

// slot is the right to have a session: a slot of the ledger, and one place of the user's quota.
type slot struct {
	uid    uint32
	number int
	// program is its place in the user's quota.
	program *quota.Claim
	// tenant is the user's number in the ledger.
	tenant uint16
	// standby is the worker that gets the session; nil: a new one.
	standby *standby.Worker
}

// check returns an error if a limit forbids one more session of the user.
func (r *registry) check(uid uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checkTotal(); err != nil {
		return err
	}
	return r.quota.Check(uid, quota.Programs, 1)
}

// checkTotal returns an error if no user may have one more session. The caller holds mu.
func (r *registry) checkTotal() error {
	switch {
	case r.closed:
		return fmt.Errorf("%w: phosd is being stopped", api.ErrExhausted)
	case r.total >= r.maxTotal:
		return fmt.Errorf("%w: %d programs already run (sessions.total)", api.ErrExhausted, r.total)
	}
	return nil
}

// reserve takes a slot and a place of the user's quota, or says which limit is reached. The standby
// worker, if any, brings its own slot of the ledger.
func (r *registry) reserve(uid uint32, worker *standby.Worker) (slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checkTotal(); err != nil {
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
	program, err := r.quota.Take(uid, quota.Programs, 1)
	if err != nil {
		return slot{}, err
	}
	return slot{uid: uid, number: number, program: program, tenant: r.occupy(uid, number), standby: worker}, nil
}

// reserveAdopted takes the slot of the ledger in which an adopted session accounts.
func (r *registry) reserveAdopted(uid uint32, number int) (slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number < 0 || number >= len(r.slots) || r.slots[number] {
		return slot{}, fmt.Errorf("%w: ledger slot %d is taken", api.ErrExhausted, number)
	}
	program := r.quota.TakeBeyond(uid, quota.Programs, 1)
	return slot{uid: uid, number: number, program: program, tenant: r.occupy(uid, number)}, nil
}

// occupy counts one more session, and returns its user's number in the ledger. The caller holds mu.
func (r *registry) occupy(uid uint32, slot int) uint16 {
	r.slots[slot] = true
	r.total++
	if r.tenants[uid] == nil {
		r.tenants[uid] = &tenant{number: r.freeTenant(uid)}
	}
	r.tenants[uid].sessions++
	return r.tenants[uid].number
}

// freeTenant returns a number for a user that has none. The caller holds mu.
func (r *registry) freeTenant(uid uint32) uint16 {
	if uid == 0 {
		return 0
	}
	taken := make(map[uint16]bool, len(r.tenants))
	for _, each := range r.tenants {
		taken[each.number] = true
	}
	number := uint16(1)
	for taken[number] { // ends: each tenant has a slot of the ledger
		number++
	}
	return number
}

// release ends a reservation. The slot of the ledger must be cleared.
func (r *registry) release(given slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[given.number] = false
	r.total--
	given.program.Release()
	if of := r.tenants[given.uid]; of != nil {
		if of.sessions--; of.sessions <= 0 {
			delete(r.tenants, given.uid)
		}
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

// setClosed refuses or accepts new programs.
func (r *registry) setClosed(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
}

// start announces a session whose worker is about to answer the program. Until add or notStarted,
// all waits: a program that has got its session is in every list.
func (r *registry) start(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting[s] = make(chan struct{})
}

// notStarted ends start for a session whose worker has failed.
func (r *registry) notStarted(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started(s)
}

// started lets all go on. The caller holds mu.
func (r *registry) started(s *Session) {
	if settled := r.starting[s]; settled != nil {
		close(settled)
		delete(r.starting, s)
	}
}

func (r *registry) add(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s.record.Session] = s
	r.started(s)
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
	r.awaitStarting()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.sessions), func(a, b *Session) int {
		return int(int64(a.record.Session) - int64(b.record.Session))
	})
}

// awaitStarting waits for the sessions that are starting now, which takes no longer than to send a
// worker its configuration.
func (r *registry) awaitStarting() {
	r.mu.Lock()
	starting := slices.Collect(maps.Values(r.starting))
	r.mu.Unlock()
	for _, settled := range starting {
		<-settled
	}
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}
