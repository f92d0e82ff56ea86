package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// endedRetry is about as long as it takes to notice that a program has ended.
const endedRetry = 20 * time.Millisecond

// Request is one checkpoint.
type Request struct {
	Caller api.Caller
	Begin  *api.CheckpointBegin
	// Roots are the roots of the process trees. The pids in Begin are as the caller sees them.
	Roots []proc.Identity
	// Files are the image directory, or what to write a stream to. The caller closes them.
	Files    []*os.File
	Progress func(ckpt.Step)
	Notice   func(string)
	// Hold, if not nil, is called while the programs are frozen; they stay frozen until it returns.
	Hold func(context.Context) error
	// Meet, if not nil, is called at each point where this checkpoint waits for others that make one
	// cut with it.
	Meet func(context.Context, ckpt.Arrival) error

	// rights are the rights with which the directory's files are accessed.
	rights fsuid.Rights
	kinds  []string
	// shared is the user's directory in one that the administrator has named; nil: it is in none.
	shared *os.File
	// byPolicy means that a policy wants it, and not a caller.
	byPolicy bool
}

// Checkpoint takes a checkpoint for a caller.
func (c *Checkpoints) Checkpoint(ctx context.Context, r Request) (_ *ckpt.CheckpointResult, err error) {
	if r.kinds, err = image.ChooseKinds(r.Begin.GetTargets(), r.Begin.GetSkipTargets()); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	r.rights = archive.RightsOf(r.Caller)
	given := r.Begin.GetDeadlineMilliseconds()
	if given == 0 {
		return c.checkpoint(ctx, r)
	}
	limit := time.Duration(min(given, maxMilliseconds)) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errGaveUp)
	defer cancel()
	saved, err := c.checkpoint(ctx, r)
	if saved == nil && err != nil && errors.Is(context.Cause(ctx), errGaveUp) {
		return nil, fmt.Errorf("%w after %v (--deadline): the program runs on, and the image is as it was: %w",
			errGaveUp, limit, err)
	}
	return saved, err
}

// maxMilliseconds is an upper bound for times that a caller gives.
const maxMilliseconds = uint64(24 * time.Hour / time.Millisecond)

// errGaveUp is returned when a checkpoint has taken longer than its caller allows.
var errGaveUp = fmt.Errorf("gave up: %w", context.DeadlineExceeded)

// checkpoint takes a checkpoint, and counts, logs and records it.
func (c *Checkpoints) checkpoint(ctx context.Context, r Request) (*ckpt.CheckpointResult, error) {
	pids := pidsOf(r.Roots)
	c.log.Debug("checkpoint asked for", "pids", pids, "policy", r.byPolicy)
	affected, err := c.admit(ctx, &r)
	if err != nil {
		c.log.Warn("checkpoint refused", "pids", pids, "uid", r.Caller.UID, "error", api.Text(err))
		return nil, err
	}
	for _, s := range affected {
		defer s.BeginCheckpoint()()
	}
	saved, err := c.save(ctx, r)
	c.metrics.Checkpointed(saved, err, r.byPolicy)
	if err != nil {
		c.log.Warn("checkpoint failed", "pids", pids, "uid", r.Caller.UID, "policy", r.byPolicy, "error", api.Text(err))
		if !errors.Is(err, context.Canceled) {
			c.recordFailure(affected, err)
		}
		return saved, err
	}
	done := rundir.Checkpoint{Last: time.Now(), Generation: saved.Manifest.Generation}
	if !r.Begin.GetStream() {
		done.Dir = pathOf(r.Files[0])
	}
	c.log.Info(
		"checkpoint taken",
		"pids", pids, "uid", r.Caller.UID, "policy", r.byPolicy,
		"dir", done.Dir, "generation", done.Generation,
		"pause", saved.Pause, "total", saved.Total,
		"written", saved.Manifest.Stats.WrittenBytes, "shared", saved.Manifest.Stats.SharedBytes,
		"stopped", r.Begin.GetStop(),
	)
	c.log.Debug("checkpoint steps", "pids", pids, "took", saved.Took, "paused", saved.Paused)
	if len(r.kinds) == 0 { // a partial image cannot be restored
		c.recordSuccess(affected, done)
	}
	return saved, nil
}

// pidsOf returns the pids of processes, for the log.
func pidsOf(roots []proc.Identity) []int {
	pids := make([]int, len(roots))
	for i, root := range roots {
		pids[i] = root.PID
	}
	return pids
}

// recordSuccess records a checkpoint for --status and for the next phosd.
func (c *Checkpoints) recordSuccess(saved []*sessions.Session, done rundir.Checkpoint) {
	for _, s := range saved {
		done.Tried = time.Now()
		c.sessions.SetCheckpoint(s, done)
	}
}

// recordFailure records why an attempt failed.
func (c *Checkpoints) recordFailure(tried []*sessions.Session, err error) {
	for _, s := range tried {
		now := rundir.Checkpoint{}
		if before := s.Checkpoint(); before != nil {
			now = *before
		}
		now.Tried, now.Error = time.Now(), api.Text(err)
		c.sessions.SetCheckpoint(s, now)
	}
}

// save saves trees whose processes may end at any time. As long as the roots exist, it retries with
// what is left.
func (c *Checkpoints) save(ctx context.Context, r Request) (*ckpt.CheckpointResult, error) {
	if c.options.CPU == nil {
		return nil, errNotBuilt
	}
	roots := r.Roots
	if len(c.sessions.Below(r.Roots)) == 0 {
		r.noticeWithoutGPU(roots)
	}
	met := false
	if meet := r.Meet; meet != nil {
		r.Meet = func(ctx context.Context, now ckpt.Arrival) error {
			met = true
			return meet(ctx, now)
		}
	}
	for begun := time.Now(); ; {
		saved, err := c.tryCheckpoint(ctx, r, roots)
		if err == nil || saved != nil {
			return saved, err
		}
		for _, root := range roots {
			if _, zombie := root.Zombie(); zombie || root.Gone() {
				return nil, fmt.Errorf("%w: pid %d ended while it was saved", api.ErrNoProgram, root.PID)
			}
		}
		// The others of a cut do not begin again.
		if met || !errors.Is(err, ckpt.ErrProgramEnded) || time.Since(begun) > c.idleTime(r) {
			return nil, err
		}
		c.log.Info("process ended during the checkpoint; retrying", "error", err)
		select {
		case <-time.After(endedRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// idleTime returns how long the programs may take to become idle.
func (c *Checkpoints) idleTime(r Request) time.Duration {
	if given := r.Begin.GetIdleMilliseconds(); given > 0 {
		return time.Duration(min(given, maxMilliseconds)) * time.Millisecond
	}
	return c.config.Deadline()
}

// tryCheckpoint makes one attempt. It fails with ErrProgramEnded if a process exits during it.
func (c *Checkpoints) tryCheckpoint(ctx context.Context, r Request, roots []proc.Identity) (*ckpt.CheckpointResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target, err := c.target(ctx, r)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	if !r.byPolicy && r.Notice != nil && !r.Begin.GetStream() {
		c.noticeOtherProgram(r, target.Dir, roots[0])
	}
	defer c.watchSpace(ctx, r, target, cancel)()
	begin := r.Begin
	budget := orDefault(begin.GetBudgetBytes(), uint64(c.config.MemoryBudget))
	// Half of the budget is for what the GPUs have.
	work := c.archive.Work(ctx, archive.WorkOptions{MemoryBytes: budget / 2, Caller: r.Caller, Cancel: cancel})
	connections, err := parsePrefixes(begin.GetConnections())
	if err != nil {
		return nil, err
	}
	return ckpt.Checkpoint(ctx, ckpt.CheckpointOptions{
		Roots: roots, CPU: c.options.CPU,
		Admit:   func(trees []*ckpt.Tree) error { return checkOwner(r.Caller, trees) },
		Devices: c.devicesOf,
		Track:   c.track, Work: work,
		Image: ckpt.Target{Dir: target.Dir, Seal: c.archive.Seal},
		Manifest: image.Manifest{
			Phos: api.Version, Group: begin.GetGroup(), Host: thisHost(), Owner: ownerName(roots[0]), Kinds: r.kinds,
			Renumbered: c.renumbered(roots),
		},
		Options: ckpt.GPUOptions{
			BudgetBytes:    budget,
			BandwidthBytes: orDefault(begin.GetBandwidthBytes(), uint64(c.config.Bandwidth)),
			Compress:       begin.GetCompress() || c.config.Compress, Kinds: r.kinds,
			StopTheWorld: begin.GetStopTheWorld(), Progress: r.Progress,
		},
		FileBytes: uint64(c.config.FileLimit), Deadline: c.idleTime(r), Stop: begin.GetStop(),
		Connections: connections, Hold: r.Hold, Meet: r.Meet, Publish: target.Publish, Untracked: c.logUntracked, Notice: r.Notice, Log: c.log,
		Fail: c.options.Failpoints,
	})
}

// parsePrefixes reads networks.
func parsePrefixes(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%w: network %.100q: %w", api.ErrInvalid, text, err)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// renumbered returns the GPUs that trees know by other numbers. Trees that are saved together work
// together: the first one that has been moved says it for all.
func (c *Checkpoints) renumbered(roots []proc.Identity) view.Renumbered {
	for _, root := range roots {
		if numbers := c.trees.Renumbered(root); len(numbers) > 0 {
			return numbers
		}
	}
	return nil
}

// ownerName returns the owner's name alone: ckpt.Checkpoint fills in the numbers of the tree that
// it saves.
func ownerName(root proc.Identity) image.Owner {
	uid, err := root.UID()
	if err != nil {
		return image.Owner{} // the process has ended; ckpt.Checkpoint reports it
	}
	return image.Owner{Name: account.KnownName(uid)}
}

// orDefault returns given, or otherwise if the request left it 0.
func orDefault(given, otherwise uint64) uint64 {
	if given == 0 {
		return otherwise
	}
	return given
}

// checkRoots returns an error unless the caller may save all roots.
func (r *Request) checkRoots() error {
	if len(r.Roots) == 0 {
		return fmt.Errorf("%w: no program is named", api.ErrInvalid)
	}
	for _, root := range r.Roots {
		if err := r.checkRoot(root); err != nil {
			return err
		}
	}
	return nil
}

// checkRoot refuses a root before its tree is inspected. Callers must not learn about other users'
// processes, and must not be frozen themselves, because then they could not end the checkpoint.
func (r *Request) checkRoot(root proc.Identity) error {
	owner, err := root.UID()
	switch {
	case err != nil:
		return lookupError(root.PID, err)
	case !r.Caller.CanAccess(owner):
		return sessions.ErrNotOwned(root.PID)
	case root.PID == os.Getpid():
		return fmt.Errorf("%w: pid %d is phosd itself; name a program (pos_cli ps lists them)", api.ErrInvalid, root.PID)
	case root.PID == 1:
		return fmt.Errorf("%w: pid 1 is what everything here was started by; name a program", api.ErrInvalid)
	case !r.byPolicy && proc.Descends(r.Caller.Process.PID, root.PID):
		return fmt.Errorf(
			"%w: pid %d (%s) has started the very pos_cli that asks, which would have to be saved with it; "+
				"ask from elsewhere, or name the program itself",
			api.ErrInvalid,
			root.PID,
			root.Name(),
		)
	}
	return nil
}

// lookupError says that there is no such program, unless phosd lacked the means to look.
func lookupError(pid int, err error) error {
	if proc.Unknown(err) {
		return fmt.Errorf("pid %d: %w", pid, err)
	}
	return fmt.Errorf("%w: pid %d", api.ErrNoProgram, pid)
}

// checkOwner refuses trees with processes that are not the caller's.
func checkOwner(caller api.Caller, trees []*ckpt.Tree) error {
	for _, tree := range trees {
		for _, p := range tree.Processes {
			if !caller.CanAccess(p.UID) {
				return sessions.ErrNotOwned(p.PID)
			}
		}
	}
	return nil
}

// target opens the image directory or the stream that the request names.
func (c *Checkpoints) target(ctx context.Context, r Request) (*archive.Target, error) {
	if r.Begin.GetStream() {
		return c.archive.IntoStream(ctx, r.Files[0], r.Caller)
	}
	return c.archive.Into(r.Files[0], r.directoryRights())
}

// directoryRights returns the rights with which names in the image directory are accessed: the
// caller's. But if root saves a user's programs to a directory of that user, they are the user's,
// so that the user can use the image together with the user's own images there.
func (r *Request) directoryRights() fsuid.Rights {
	var dir unix.Stat_t
	if r.rights.UID != 0 || unix.Fstat(int(r.Files[0].Fd()), &dir) != nil || dir.Uid == 0 {
		return r.rights
	}
	for _, root := range r.Roots {
		if uid, err := root.UID(); err != nil || uid != dir.Uid {
			return r.rights
		}
	}
	return fsuid.Rights{UID: dir.Uid, GID: dir.Gid}
}

// pathOf returns the path of an open file, as phosd sees it.
func pathOf(file *os.File) string {
	path, err := proc.PathOf(int(file.Fd()))
	if err != nil {
		return file.Name()
	}
	return path
}
