package archive

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

// memoryless is an archive in a state directory of its own, whose work has no memory.
func memoryless(t *testing.T, limitBytes uint64) (*Archive, *quota.Quota) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: gives directories to users")
	}
	state, err := statedir.Open(statedir.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	shares := quota.New(map[quota.Resource]quota.Limit{
		quota.WorkBytes: {Key: "users.work_bytes", What: "work", Bytes: true, Max: limitBytes},
	})
	return New(Options{State: state, Quota: shares, Log: slog.New(slog.DiscardHandler)}), shares
}

// TestWorkCounts: what a request has on the shared disk counts as its user's: as much as was
// expected, or what it has become.
func TestWorkCounts(t *testing.T) {
	const uid, limit = 61260, 8 << 20
	a, shares := memoryless(t, limit)
	used := func() uint64 { return shares.Of(uid)[0].Used }
	ctx, cancel := context.WithCancelCause(t.Context())
	make := a.Work(ctx, WorkOptions{Caller: api.Caller{UID: uid}, Cancel: cancel})
	first, err := make(6<<20, uid, uid)
	if err != nil || used() != 6<<20 {
		t.Fatalf("%v, %d bytes count", err, used())
	}
	if _, err := make(4<<20, uid, uid); !errors.Is(err, api.ErrExhausted) {
		t.Errorf("10 of 8 MiB: got %v, want ErrExhausted", err)
	}
	if _, err := a.Work(ctx, WorkOptions{Cancel: cancel})(4<<20, uid, uid); err != nil {
		t.Errorf("for root: %v", err)
	}
	if err := first.Remove(); err != nil || used() != 0 {
		t.Errorf("%v, %d bytes count after it was removed", err, used())
	}
	grown, err := make(math.MaxInt64, uid, uid)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("/proc/self/fd", strconv.FormatUint(uint64(grown.Descriptor().Fd()), 10), "pages")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, limit+1<<20), file.Close()); err != nil {
		t.Skip(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, api.ErrExhausted) {
		t.Errorf("a directory that has grown to 9 MiB: got %v, want ErrExhausted", err)
	}
	if err := grown.Remove(); err != nil || used() != 0 {
		t.Errorf("%v, %d bytes count in the end", err, used())
	}
}
