package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
)

// admit finds the roots of a request, and the sessions that it affects. A request that it refuses
// leaves no trace on them: a stranger must not make another user's program look failed. It waits
// for programs that are being restored, which have their sessions only then.
func (c *Checkpoints) admit(ctx context.Context, r *Request) (affected []*sessions.Session, err error) {
	if err := r.checkRoots(); err != nil {
		return nil, err
	}
	if err := c.awaitRestores(ctx, r); err != nil {
		return nil, err
	}
	affected = c.sessions.Below(r.Roots)
	for _, s := range affected {
		if !r.Caller.CanAccess(s.Record().Owner.UID) {
			return nil, sessions.ErrNotOwned(s.PID())
		}
	}
	return affected, nil
}

// restoreNotice is how long a restore may take until a caller that waits for it is told.
const restoreNotice = 300 * time.Millisecond

// awaitRestores waits until no root is being restored.
func (c *Checkpoints) awaitRestores(ctx context.Context, r *Request) error {
	loader, ok := c.options.CPU.(ckpt.LazyLoader)
	if !ok {
		return nil
	}
	if r.Progress != nil {
		defer time.AfterFunc(restoreNotice, func() { r.Progress(ckpt.Step{Phase: "settle"}) }).Stop()
	}
	for _, root := range r.Roots {
		if err := loader.AwaitRestore(ctx, root); err != nil {
			return fmt.Errorf("wait until pid %d is restored: %w", root.PID, err)
		}
	}
	return nil
}

// watchSpace ends a checkpoint that takes more of a shared disk than its user may have. The
// returned function ends the watch.
func (c *Checkpoints) watchSpace(
	ctx context.Context,
	r Request,
	target *archive.Target,
	cancel context.CancelCauseFunc,
) (stop func()) {
	switch {
	case r.Begin.GetStream():
		return archive.WatchUse(ctx, target.Work, target.Share.SetTo, cancel)
	case r.shared != nil:
		uid := r.Caller.UID
		measured := func(bytes uint64) error { return c.measureImages(uid, bytes) }
		return archive.WatchUse(ctx, r.shared, measured, cancel)
	}
	return func() {}
}

// checkSpace returns an error if a user's images in a directory of the administrator already take
// the user's share.
func (c *Checkpoints) checkSpace(uid uint32, images *os.File) error {
	bytes, err := archive.UsedBytes(c.options.Life, images)
	if err != nil {
		return err
	}
	return c.measureImages(uid, bytes)
}

// measureImages records what a user's images take. If that is more than the user's share, it
// removes images of ended programs.
func (c *Checkpoints) measureImages(uid uint32, bytes uint64) error {
	err := c.options.Quota.Measure(uid, quota.ImageBytes, bytes)
	if errors.Is(err, api.ErrExhausted) {
		return c.images.MakeRoom(uid)
	}
	return err
}
