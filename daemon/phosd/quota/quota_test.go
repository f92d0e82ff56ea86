package quota

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

// TestFixed checks a configured share: it is each user's own, and does not limit root.
func TestFixed(t *testing.T) {
	q := New(map[Resource]Limit{Requests: {Key: "users.requests", What: "requests", Max: 2}})
	first, err := q.Take(1000, Requests, 2)
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := q.Take(1000, Requests, 1); !errors.As(err, &refused) || !errors.Is(err, api.ErrExhausted) ||
		refused.Key != "users.requests" || refused.Used != 2 || refused.Limit != 2 {
		t.Errorf("third request: got %v, want an Error with 2 of 2", err)
	}
	for _, uid := range []uint32{0, 1001} {
		if _, err := q.Take(uid, Requests, 2); err != nil {
			t.Errorf("user %d: got %v, want no error", uid, err)
		}
	}
	if _, err := q.Take(0, Requests, 99); err != nil {
		t.Errorf("root: got %v, want no limit", err)
	}
	first.Release()
	first.Release()
	if _, err := q.Take(1000, Requests, 2); err != nil {
		t.Errorf("after Release: got %v, want no error", err)
	}
}

// TestRelative checks a share of what is free: twenty users that take all they can get leave some.
func TestRelative(t *testing.T) {
	const all = 1 << 20
	free := uint64(all)
	q := New(map[Resource]Limit{StreamBytes: {Key: "k", Free: func() uint64 { return free }}})
	for uid := uint32(1); uid <= 20; uid++ {
		share, err := q.Take(uid, StreamBytes, 0)
		if err != nil {
			t.Fatal(err)
		}
		took := uint64(0)
		for ; share.Grow(1) == nil; took++ {
			free--
		}
		if took == 0 || free == 0 {
			t.Errorf("user %d got %d, and %d stays free; want both above 0", uid, took, free)
		}
	}
	if err := (&Share{quota: q, uid: 21, resource: StreamBytes}).SetTo(free + 1); err == nil {
		t.Error("more than is free: got no error")
	}
}

// TestSetTo checks that a share shrinks and grows.
func TestSetTo(t *testing.T) {
	q := New(map[Resource]Limit{Files: {Key: "k", Max: 10}})
	share, err := q.Take(5, Files, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		to, holds uint64
		fails     bool
	}{{10, 10, false}, {11, 10, true}, {3, 3, false}, {0, 0, false}} {
		if err := share.SetTo(step.to); (err != nil) != step.fails {
			t.Errorf("SetTo(%d): got %v, want failure = %v", step.to, err, step.fails)
		}
		if got := q.Of(5)[0].Used; got != step.holds {
			t.Errorf("after SetTo(%d) the user holds %d, want %d", step.to, got, step.holds)
		}
	}
	if users := q.Users(); len(users) != 0 {
		t.Errorf("users that hold something: got %v, want none", users)
	}
}
