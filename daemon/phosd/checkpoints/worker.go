package checkpoints

import (
	"context"
	"errors"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/workerclient"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// restoringSession is a session that is being restored, as package ckpt sees it.
type restoringSession struct {
	*workerclient.Restore
	session *sessions.Restoring
	// track returns the userfaultfd that the restore has made in the program.
	track func(context.Context, proc.Identity) (*os.File, error)
	// files take the place of files that the program had mapped, by their paths.
	files map[string]*os.File
}

// startWorker returns what starts a worker that restores a session of an image, on these GPUs.
func (c *Checkpoints) startWorker(gpus preflight.GPUs) func(
	context.Context, *image.GPUHalf, ckpt.Source, bool,
) (ckpt.GPURestore, error) {
	return func(ctx context.Context, half *image.GPUHalf, source ckpt.Source, eager bool) (ckpt.GPURestore, error) {
		return c.startWorkerFor(ctx, source, half, boot.Restore{
			Tree: half.Tree, Packs: len(source.Packs), Eager: eager, Visible: gpus.Moved(half),
		})
	}
}

// startWorkerFor starts a worker that restores a session.
func (c *Checkpoints) startWorkerFor(
	ctx context.Context, source ckpt.Source, half *image.GPUHalf, order boot.Restore,
) (ckpt.GPURestore, error) {
	owner := source.Manifest.Owner
	session, err := c.sessions.Restore(sessions.RestoreOptions{
		Owner: rundir.Owner{UID: owner.UID, GID: owner.GID}, Groups: owner.Groups, ArenaBytes: half.ArenaBytes,
		Restore: order, Packs: source.Packs,
	})
	if err != nil {
		return nil, err
	}
	return &restoringSession{
		Restore: workerclient.Watch(ctx, session.Worker(), session.Explain),
		session: session, track: c.trackRestored,
		files: map[string]*os.File{half.SessionPath: session.SessionFile, half.ArenaPath: session.ArenaFile},
	}, nil
}

// Renumbered returns the GPUs whose numbers a process of a restored tree knows otherwise.
func (c *Checkpoints) Renumbered(process proc.Identity) view.Renumbered {
	return c.trees.Renumbered(process)
}

// Files returns the files that take the place of those that the program had mapped.
func (r *restoringSession) Files() map[string]*os.File { return r.files }

// Attach gives the worker its program, and registers the session.
func (r *restoringSession) Attach(ctx context.Context, id proc.Identity) error {
	userfaultfd, err := r.track(ctx, id)
	if err != nil && !errors.Is(err, ckpt.ErrUntracked) {
		return err
	}
	if userfaultfd != nil {
		defer userfaultfd.Close()
	}
	return r.session.Attach(id, func(control string, program *proc.Handle) error {
		return r.Restore.Attach(ctx, r.session.Worker(), control, program, userfaultfd)
	})
}

// Abort ends the worker and removes everything of the session.
func (r *restoringSession) Abort() {
	r.Close()
	r.session.Abort()
}
