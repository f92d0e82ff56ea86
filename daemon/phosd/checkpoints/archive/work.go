package archive

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

// WorkOptions say how much the work directories of one request may hold.
type WorkOptions struct {
	// MemoryBytes is how much of them may be in memory, together.
	MemoryBytes uint64
	// Caller is the user in whose quota it counts what is on the disk.
	Caller api.Caller
	// Cancel ends the request with an error, because a directory holds too much.
	Cancel context.CancelCauseFunc
}

// Work returns the function by which ckpt makes work directories. All users share the disk of the
// state directory, so what a directory takes there counts against the user's quota, at least with
// the expected size, until it is removed. Its size is looked at until the context ends.
func (a *Archive) Work(
	ctx context.Context,
	options WorkOptions,
) func(bytes uint64, uid, gid uint32) (ckpt.WorkDir, error) {
	left := options.MemoryBytes
	return func(bytes uint64, uid, gid uint32) (ckpt.WorkDir, error) {
		made, err := a.state.NewWork(bytes, left, uid, gid)
		if err != nil {
			return nil, err
		}
		work := &privateWork{Work: made, bytes: bytes, stop: func() {}}
		if made.InMemory {
			left -= bytes
			return work, nil
		}
		if err := a.claim(ctx, work, options); err != nil {
			return nil, errors.Join(err, work.Remove())
		}
		return work, nil
	}
}

// claim counts a directory on the disk as the user's, and watches what it holds.
func (a *Archive) claim(ctx context.Context, work *privateWork, options WorkOptions) (err error) {
	expected := work.bytes
	if expected >= unknownBytes {
		expected = 0
	}
	if work.share, err = a.quota.Take(options.Caller.UID, quota.WorkBytes, expected); err != nil {
		return err
	}
	work.share.By(options.Caller.Process)
	report := func(bytes uint64) error {
		if err := checkReserve(work.File); err != nil && options.Caller.UID != 0 {
			return err
		}
		return work.share.SetTo(max(bytes, expected))
	}
	if options.Caller.UID != 0 {
		if err := checkReserve(work.File); err != nil {
			return err
		}
	}
	work.stop = WatchUse(ctx, work.File, report, options.Cancel)
	return nil
}

// checkReserve returns an error if the disk of a directory has only its reserve left: one part in
// roomPart.
func checkReserve(dir *os.File) error {
	var at unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &at); err != nil {
		return err
	}
	if at.Bavail < at.Blocks/roomPart {
		return fmt.Errorf("%w: the disk of phosd's state directory is nearly full", api.ErrExhausted)
	}
	return nil
}

// privateWork implements ckpt.WorkDir.
type privateWork struct {
	*statedir.Work
	bytes uint64
	// share is what the directory counts for; nil for one in memory.
	share *quota.Claim
	// stop ends the look at what it holds.
	stop func()
}

// Descriptor returns the open directory.
func (w *privateWork) Descriptor() *os.File { return w.File }

// MemoryBytes returns the requested size if the directory is in memory, or else 0.
func (w *privateWork) MemoryBytes() uint64 {
	if w.InMemory {
		return w.bytes
	}
	return 0
}

// Remove deletes the directory with its content.
func (w *privateWork) Remove() error {
	w.stop()
	err := w.Work.Remove()
	if w.share != nil {
		w.share.Release()
	}
	return err
}
