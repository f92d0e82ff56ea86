package phosd

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// table holds the sessions and hands out the slots of the ledger.
type table struct {
	limits config.Sessions

	mu       sync.Mutex // guards all below
	sessions map[uint64]*session
	slots    [ledger.Slots]bool
	perUser  map[uint32]int
	// given counts the tickets that are out; the other slots that are taken are those of workers that
	// wait.
	given int
	// closed refuses new programs: phosd is being stopped.
	closed bool
}

func newTable(limits config.Sessions) *table {
	return &table{limits: limits, sessions: make(map[uint64]*session), perUser: make(map[uint32]int)}
}

// ticket is the right to have a session: its place in the ledger and in the user's quota.
type ticket struct {
	uid  uint32
	slot int
	// waiting is the worker that shall have the session; nil: a new one.
	waiting *standby.Worker
}

// take gives out a ticket, or says which limit is reached. seated is the slot of a worker that has
// waited; negative: any.
func (t *table) take(uid uint32, seated int) (ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ticket{}, fmt.Errorf("%w: phosd is being stopped", api.ErrExhausted)
	}
	if uid != 0 && t.perUser[uid] >= t.limits.PerUser {
		return ticket{}, fmt.Errorf(
			"%w: this user already runs %d programs (sessions.per_user)",
			api.ErrExhausted,
			t.limits.PerUser,
		)
	}
	if seated < 0 {
		seated = slices.Index(t.slots[:], false)
	}
	if t.given >= t.limits.Total || seated < 0 {
		return ticket{}, fmt.Errorf("%w: %d programs already run (sessions.total)", api.ErrExhausted, t.given)
	}
	t.slots[seated] = true
	t.perUser[uid]++
	t.given++
	return ticket{uid: uid, slot: seated}, nil
}

// seat takes a slot for a worker that waits.
func (t *table) seat() (slot int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot = slices.Index(t.slots[:], false); slot < 0 {
		return 0, fmt.Errorf("%w: no place in the memory accounting is left", api.ErrExhausted)
	}
	t.slots[slot] = true
	return slot, nil
}

// leave gives a slot back that seat has taken. It must be cleared.
func (t *table) leave(slot int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[slot] = false
}

// refuseAll gives out no more tickets.
func (t *table) refuseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// admitAgain takes refuseAll back.
func (t *table) admitAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = false
}

// claim takes the very slot that an adopted session has.
func (t *table) claim(uid uint32, slot int) (ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot < 0 || slot >= len(t.slots) || t.slots[slot] {
		return ticket{}, fmt.Errorf("%w: ledger slot %d is taken", api.ErrExhausted, slot)
	}
	t.slots[slot] = true
	t.perUser[uid]++
	t.given++
	return ticket{uid: uid, slot: slot}, nil
}

// giveBack ends a ticket. The slot must be cleared.
func (t *table) giveBack(given ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[given.slot] = false
	t.given--
	if t.perUser[given.uid]--; t.perUser[given.uid] <= 0 {
		delete(t.perUser, given.uid)
	}
}

func (t *table) add(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions[s.record.Session] = s
}

func (t *table) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, s.record.Session)
}

// has reports whether a session has not ended.
func (t *table) has(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[s.record.Session] == s
}

// of finds the sessions of one process; more than one only while an exec'd program starts its next.
func (t *table) of(program proc.Identity) []*session {
	return slices.DeleteFunc(t.all(), func(s *session) bool { return s.record.Program != program })
}

// all lists the sessions in the order of their numbers.
func (t *table) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.sessions), func(a, b *session) int {
		return int(int64(a.record.Session) - int64(b.record.Session))
	})
}

// running lists the sessions whose programs have not ended. One that just has keeps its session for
// the moment that its worker needs to end, and its user may have seen it end before.
func (t *table) running() []*session {
	return slices.DeleteFunc(t.all(), func(s *session) bool { return s.program.Ended() })
}

func (t *table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// abandon stops watching all sessions and leaves their workers alone.
func (t *table) abandon() {
	for _, s := range t.all() {
		s.abandon()
	}
}
