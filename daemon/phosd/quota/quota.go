package quota

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/api"
)

// Resource is something of which each user has a share. What is measured is not taken by claims:
// see Measure.
type Resource int

// The resources.
const (
	// Programs are programs that run.
	Programs Resource = iota
	// Requests are checkpoints, restores and pre-restores in flight.
	Requests
	// Prepared are images that a pre-restore has prepared.
	Prepared
	// Followed are requests that wait for the end of a restored program.
	Followed
	// Files are descriptors that phosd holds open for requests.
	Files
	// StreamBytes are bytes of images from and to streams, on the disk of the state directory.
	StreamBytes
	// WorkBytes are bytes of processes on their way from and to images, on the same disk.
	WorkBytes
	// ImageBytes are bytes of images in directories that the administrator has named; measured.
	ImageBytes
	// PinnedBytes is memory of sessions; measured.
	PinnedBytes
	// DeviceBytes is memory of the GPU of which the user holds most; measured.
	DeviceBytes
	resources
)

// Limit is each user's share of a resource.
type Limit struct {
	// Key is the setting that changes it.
	Key string
	// What names the counted things.
	What string
	// Bytes means that bytes are counted.
	Bytes bool
	// Max is the share; 0: as much as is free.
	Max uint64
	// Free returns how much of the resource no user holds; nil: any amount. It is used if Max is 0,
	// and must not call the Quota. It may block; only requests that take or
	// show the resource wait for it.
	Free func() uint64
}

// Error is returned when a user's share is used up.
type Error struct {
	Key, What string
	// Used is what the user holds, Limit how much it may hold.
	Used, Limit uint64
	Bytes       bool
	// Holders are the user's processes that hold most of it, as text; empty if they are unknown.
	Holders string
}

func (e *Error) Error() string {
	what := e.What
	if e.Bytes {
		what = "bytes of " + what
	}
	text := fmt.Sprintf("%v: %s: this user may have %d %s, and has %d", api.ErrExhausted, e.Key, e.Limit, what, e.Used)
	if e.Holders != "" {
		text += ": " + e.Holders
	}
	return text
}

// Unwrap returns ErrExhausted.
func (e *Error) Unwrap() error { return api.ErrExhausted }

// Quota counts what users hold.
type Quota struct {
	limits atomic.Pointer[[resources]Limit]

	mu   sync.Mutex // guards all below
	held map[uint32]*[resources]uint64
	// holders are the claims of which the process is known.
	holders map[*Claim]holder
}

// New returns a Quota of which nothing is held.
func New(limits map[Resource]Limit) *Quota {
	q := &Quota{held: make(map[uint32]*[resources]uint64), holders: make(map[*Claim]holder)}
	q.SetLimits(limits)
	return q
}

// SetLimits replaces all limits. What users hold beyond a new one stays.
func (q *Quota) SetLimits(limits map[Resource]Limit) {
	next := new([resources]Limit)
	for resource, limit := range limits {
		next[resource] = limit
	}
	q.limits.Store(next)
}

// limit returns the limit of a resource.
func (q *Quota) limit(resource Resource) Limit { return q.limits.Load()[resource] }

// Claim is what one request or program holds of a resource.
type Claim struct {
	quota    *Quota
	uid      uint32
	resource Resource

	mu       sync.Mutex // guards all below; taken before Quota.mu
	held     uint64
	released bool
}

// Take takes so much of a resource for a user. It returns an *Error if that exceeds the share.
func (q *Quota) Take(uid uint32, resource Resource, count uint64) (*Claim, error) {
	c := &Claim{quota: q, uid: uid, resource: resource}
	return c, c.Grow(count)
}

// TakeBeyond is Take without the limit, for what phosd found already held when it started.
func (q *Quota) TakeBeyond(uid uint32, resource Resource, count uint64) *Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heldLocked(uid)[resource] += count
	return &Claim{quota: q, uid: uid, resource: resource, held: count}
}

// Check returns the error that Take would return now.
func (q *Quota) Check(uid uint32, resource Resource, count uint64) error {
	c, err := q.Take(uid, resource, count)
	if err == nil {
		c.Release()
	}
	return err
}

// heldLocked returns what a user holds, to be changed. The caller holds mu.
func (q *Quota) heldLocked(uid uint32) *[resources]uint64 {
	held := q.held[uid]
	if held == nil {
		held = new([resources]uint64)
		q.held[uid] = held
	}
	return held
}

// Grow takes more. After Release it has no effect.
func (c *Claim) Grow(count uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grow(count)
}

// grow is Grow. The caller holds mu.
func (c *Claim) grow(count uint64) error {
	if c.released {
		return nil
	}
	if err := c.quota.add(c.uid, c.resource, count); err != nil {
		return err
	}
	c.held += count
	c.quota.note(c, c.held)
	return nil
}

// SetTo makes the claim hold exactly so much. If that exceeds the share it returns an *Error, and
// nothing has changed. After Release it has no effect.
func (c *Claim) SetTo(count uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count > c.held {
		return c.grow(count - c.held)
	}
	c.quota.subtract(c.uid, c.resource, c.held-count)
	c.held = count
	c.quota.note(c, c.held)
	return nil
}

// Release gives everything back. Later calls have no effect.
func (c *Claim) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota.subtract(c.uid, c.resource, c.held)
	c.held, c.released = 0, true
	c.quota.forget(c)
}

// add counts more, unless it exceeds the user's share.
func (q *Quota) add(uid uint32, resource Resource, count uint64) error {
	err := q.tryAdd(uid, resource, count)
	if full := new(Error); errors.As(err, &full) {
		full.Holders = q.describeHolders(uid, resource)
	}
	return err
}

// tryAdd is add; its error names no holders.
func (q *Quota) tryAdd(uid uint32, resource Resource, count uint64) error {
	limit, limited := q.limit(resource).of() // may block on a file system, so before the lock
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.held[uid]
	if held == nil {
		held = new([resources]uint64)
	}
	if used := held[resource]; uid != 0 && limited && (count > limit || used > limit-count) {
		l := q.limit(resource)
		return &Error{Key: l.Key, What: l.What, Used: used, Limit: limit, Bytes: l.Bytes}
	}
	if held[resource]+count < count {
		return &Error{Key: q.limit(resource).Key, What: q.limit(resource).What, Used: held[resource], Limit: math.MaxUint64}
	}
	held[resource] += count
	q.held[uid] = held
	return nil
}

// Measure replaces what a user holds of a resource that is measured and not taken. It returns an
// *Error if that is more than the share; it counts all the same.
func (q *Quota) Measure(uid uint32, resource Resource, held uint64) error {
	limit, limited := q.limit(resource).of()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.heldLocked(uid)
	now[resource] = held
	if *now == ([resources]uint64{}) {
		delete(q.held, uid)
	}
	if uid != 0 && limited && held > limit {
		l := q.limit(resource)
		return &Error{Key: l.Key, What: l.What, Used: held, Limit: limit, Bytes: l.Bytes}
	}
	return nil
}

// of returns the limit as it is now; false if there is none.
func (l Limit) of() (limit uint64, limited bool) {
	switch {
	case l.Max > 0:
		return l.Max, true
	case l.Free != nil:
		return l.Free(), true
	}
	return 0, false
}

// Limit returns how much a user may hold of a resource; limited is false if there is no limit.
// grows means that the limit is what is free.
func (q *Quota) Limit(uid uint32, resource Resource) (limit uint64, limited, grows bool) {
	if uid == 0 {
		return 0, false, false
	}
	limit, limited = q.limit(resource).of()
	return limit, limited, limited && q.limit(resource).Max == 0
}

// subtract undoes add.
func (q *Quota) subtract(uid uint32, resource Resource, count uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.held[uid]
	if held == nil {
		return // nothing was ever taken
	}
	held[resource] -= count
	if *held == ([resources]uint64{}) {
		delete(q.held, uid)
	}
}

// Use is what a user holds of a resource.
type Use struct {
	Key, What string
	Bytes     bool
	// Used is what the user holds. If Limited is set, it may hold at most Limit.
	Used, Limit uint64
	Limited     bool
}

// Of returns what a user holds of each resource that has a setting.
func (q *Quota) Of(uid uint32) (uses []Use) {
	held := q.heldBy(uid)
	for resource, l := range q.limits.Load() {
		if l.Key == "" {
			continue
		}
		limit, limited := l.of()
		uses = append(uses, Use{
			Key: l.Key, What: l.What, Bytes: l.Bytes, Used: held[resource], Limit: limit, Limited: limited,
		})
	}
	return uses
}

// heldBy returns a copy of what a user holds.
func (q *Quota) heldBy(uid uint32) (held [resources]uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.held[uid]; now != nil {
		held = *now
	}
	return held
}

// Users lists the users that hold anything.
func (q *Quota) Users() []uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.held))
}
