package quota

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
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
	if err := (&Claim{quota: q, uid: 21, resource: StreamBytes}).SetTo(free + 1); err == nil {
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

// TestReleaseIsFinal checks that a share that grows while it is released leaves nothing behind.
func TestReleaseIsFinal(t *testing.T) {
	q := New(map[Resource]Limit{StreamBytes: {Key: "k", Max: 1 << 30}})
	for range 1000 {
		share, err := q.Take(5, StreamBytes, 1)
		if err != nil {
			t.Fatal(err)
		}
		var users sync.WaitGroup
		users.Go(func() { _ = share.SetTo(7) })
		users.Go(func() { _ = share.Grow(3) })
		users.Go(share.Release)
		users.Wait()
	}
	if users := q.Users(); len(users) != 0 {
		t.Errorf("after all releases: got %d held, want none", q.Of(5)[0].Used)
	}
}

// TestRace takes and releases shares from many goroutines: the limit holds at each time.
func TestRace(t *testing.T) {
	const limit = 8
	q := New(map[Resource]Limit{Requests: {Key: "k", Max: limit}})
	var now, exceeded atomic.Int64
	var users sync.WaitGroup
	for range 4 * limit {
		users.Go(func() {
			for range 200 {
				share, err := q.Take(5, Requests, 1)
				if err != nil {
					continue
				}
				if now.Add(1) > limit {
					exceeded.Add(1)
				}
				now.Add(-1)
				share.Release()
			}
		})
	}
	users.Wait()
	if exceeded.Load() > 0 || len(q.Users()) != 0 {
		t.Errorf("limit exceeded %d times, and %v hold something; want neither", exceeded.Load(), q.Users())
	}
}

// TestWrap checks that the sum does not wrap, not even root's, which has no limit.
func TestWrap(t *testing.T) {
	q := New(map[Resource]Limit{StreamBytes: {Key: "k", Max: 10}})
	if _, err := q.Take(0, StreamBytes, math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Take(0, StreamBytes, 2); err == nil {
		t.Error("root: the sum wrapped")
	}
	if _, err := q.Take(5, StreamBytes, math.MaxUint64); err == nil {
		t.Error("all bytes: got no error")
	}
}

// TestFreeBlocks checks that a file system that does not answer delays no request for another
// resource.
func TestFreeBlocks(t *testing.T) {
	answer, asked := make(chan struct{}), make(chan struct{})
	q := New(map[Resource]Limit{
		ImageBytes: {Key: "k", Free: func() uint64 { close(asked); <-answer; return 1 }},
		Requests:   {Key: "l", Max: 1},
	})
	measured, taken := make(chan error, 1), make(chan error, 1)
	go func() { measured <- q.Measure(5, ImageBytes, 1) }()
	<-asked
	go func() { _, err := q.Take(6, Requests, 1); taken <- err }()
	select {
	case err := <-taken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a request waits for the file system of another resource")
	}
	close(answer)
	if err := <-measured; err != nil {
		t.Error(err)
	}
}

// TestHoldersAreNamed: a refusal names the processes of the user that hold most, and no other
// user's.
func TestHoldersAreNamed(t *testing.T) {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(os.Getuid())
	if uid == 0 {
		uid = 61270
	}
	q := New(map[Resource]Limit{Requests: {Key: "k", What: "requests", Max: 8}})
	var claims []*Claim
	for i := range 7 {
		command := exec.Command("sleep", "1000")
		if os.Getuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		id, err := proc.Of(command.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		share, err := q.Take(uid, Requests, 1)
		if err != nil {
			t.Fatal(err)
		}
		share.By(id)
		if i == 6 { // holds most, so it is named first
			if err := share.Grow(1); err != nil {
				t.Fatal(err)
			}
		}
		claims = append(claims, share)
	}
	other, err := q.Take(uid+1, Requests, 1)
	if err != nil {
		t.Fatal(err)
	}
	other.By(self)
	_, err = q.Take(uid, Requests, 1)
	full := new(Error)
	if !errors.As(err, &full) {
		t.Fatal(err)
	}
	first := q.holders[claims[6]].process
	if !strings.HasPrefix(full.Holders, fmt.Sprintf("pid %d (sleep), ", first.PID)) ||
		!strings.HasSuffix(err.Error(), " and 2 more") || strings.Contains(full.Holders, fmt.Sprintf("pid %d ", self.PID)) {
		t.Errorf("got %q, want pid %d first, and 2 more", err, first.PID)
	}
	for _, share := range claims {
		share.Release()
	}
	if text := q.describeHolders(uid, Requests); text != "" {
		t.Errorf("after all releases: %s", text)
	}
}

// TestSetLimits: new limits count from then on, and take nothing away.
func TestSetLimits(t *testing.T) {
	limits := func(most uint64) map[Resource]Limit {
		return map[Resource]Limit{Requests: {Key: "k", What: "requests", Max: most}}
	}
	q := New(limits(2))
	first, err := q.Take(5, Requests, 2)
	if err != nil {
		t.Fatal(err)
	}
	q.SetLimits(limits(1))
	if _, err := q.Take(5, Requests, 1); !errors.Is(err, api.ErrExhausted) || q.Of(5)[0].Used != 2 {
		t.Errorf("beyond the smaller limit: got %v, %d held", err, q.Of(5)[0].Used)
	}
	q.SetLimits(limits(3))
	if _, err := q.Take(5, Requests, 1); err != nil {
		t.Errorf("within the larger limit: %v", err)
	}
	first.Release()
}
