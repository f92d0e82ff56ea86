package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/onboot"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// bootDelays are the times before the attempts to restore a program after a restart of the machine:
// a disk or a GPU may come late.
var bootDelays = [onboot.MaxAttempts]time.Duration{0, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}

// RestoreAfterBoot restores the programs whose policies say so, if the machine was restarted. It
// returns when all are restored or given up, or when Options.Life ends. No user waits for another.
func (c *Checkpoints) RestoreAfterBoot() {
	if c.options.CPU == nil {
		return
	}
	byUser := make(map[uint32]bool)
	var restoring sync.WaitGroup
	for _, program := range c.boot.Pending() {
		if uid := program.UID; !byUser[uid] {
			byUser[uid] = true
			restoring.Go(func() { c.restoreUserAfterBoot(uid) })
		}
	}
	restoring.Wait()
}

// restoreUserAfterBoot is RestoreAfterBoot for the programs of one user.
func (c *Checkpoints) restoreUserAfterBoot(uid uint32) {
	for _, delay := range bootDelays {
		select {
		case <-time.After(delay):
		case <-c.options.Life.Done():
			return
		}
		left := false
		for _, program := range c.boot.Pending() {
			if program.UID != uid {
				continue
			}
			if !c.attemptAfterBoot(program) {
				left = true
			}
		}
		if !left {
			return
		}
	}
}

// attemptAfterBoot attempts to restore a program, unless there were too many attempts. It reports
// whether no other attempt is needed.
func (c *Checkpoints) attemptAfterBoot(program onboot.Program) (done bool) {
	for _, s := range c.sessions.Running() {
		// The phosd before was killed when it had just restored the program.
		if last := s.Checkpoint(); last != nil && last.Dir == program.Dir && s.Record().Owner.UID == program.UID {
			c.boot.Restored(program.Dir, program.UID, s.Record().Program)
			return true
		}
	}
	if !c.boot.Attempt(program.Dir) {
		return true
	}
	restored, err := c.restoreAfterBoot(program)
	if c.options.Life.Err() != nil && err != nil {
		return true // the next phosd goes on
	}
	if err != nil {
		// What is not permitted now is not permitted later.
		final := errors.Is(err, api.ErrNotPermitted)
		c.boot.Failed(program.Dir, err, final)
		return final
	}
	c.log.Info("program restored after the machine's restart",
		"pid", restored.Root.PID, "uid", program.UID, "dir", program.Dir)
	go func() {
		if _, err := restored.Loaded(c.options.Life); err != nil && c.options.Life.Err() == nil {
			c.log.Error("load memory failed; the restored program gets errors where it uses what is missing",
				"pid", restored.Root.PID, "dir", program.Dir, "error", err)
		}
	}()
	return true
}

// errOtherOwner is returned when the image of a program was replaced by one of another user's.
var errOtherOwner = fmt.Errorf("%w: the image is of another user's program", api.ErrNotPermitted)

// restoreAfterBoot restores a program, detached, as a request of its user would.
func (c *Checkpoints) restoreAfterBoot(program onboot.Program) (*Restored, error) {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	caller := api.Caller{UID: program.UID, GID: program.GID, Groups: program.Groups, Process: self}
	if err := c.options.MayUse(caller); err != nil {
		return nil, err
	}
	share, err := c.options.Quota.Take(caller.UID, quota.Requests, 1)
	if err != nil {
		return nil, err
	}
	defer share.Release()
	ctx := c.options.Life
	var dir *os.File
	err = program.Rights().Do(func() error {
		how := unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, program.Dir, &how)
		if err != nil {
			return &os.PathError{Op: "open", Path: program.Dir, Err: err}
		}
		dir = os.NewFile(uintptr(fd), program.Dir)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	generation, newPids, err := c.inspectForBoot(ctx, dir, program, caller)
	if err != nil {
		return nil, err
	}
	return c.Restore(ctx, RestoreRequest{
		Caller:   caller,
		Begin:    &api.RestoreBegin{Detach: true, NewPids: newPids, Generation: generation},
		Files:    []*os.File{dir},
		Progress: func(ckpt.Step) {},
		Notice: func(text string) {
			c.log.Info("restore notice", "dir", program.Dir, "uid", program.UID, "notice", text)
		},
	})
}

// inspectForBoot returns the newest generation of an image, and whether its program needs new pids:
// other processes may have the old ones.
func (c *Checkpoints) inspectForBoot(
	ctx context.Context,
	dir *os.File,
	program onboot.Program,
	caller api.Caller,
) (generation uint64, newPids bool, err error) {
	image, err := c.archive.Open(dir, 0, archive.Access{Caller: caller})
	if err != nil {
		return 0, false, err
	}
	defer image.Close()
	if image.Manifest.Owner.UID != program.UID {
		return 0, false, errOtherOwner
	}
	gpus, err := c.assign(image, preflight.Choice{})
	if err != nil {
		return 0, false, err
	}
	obstacles := c.obstacles(ctx, image, caller, preflight.Restore{GPUs: gpus})
	return image.Manifest.Generation, len(ckpt.Serious(obstacles)) > 0, nil
}

// BootRestores lists the programs that were restored after the machine's restart, or are to be.
func (c *Checkpoints) BootRestores() []onboot.Program { return c.boot.Since() }
