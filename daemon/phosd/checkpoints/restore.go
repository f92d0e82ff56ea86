package checkpoints

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/restored"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// RestoreRequest is one restore.
type RestoreRequest struct {
	Caller api.Caller
	Begin  *api.RestoreBegin
	// Files are the image directory or a stream, and then what takes the place of the image's
	// endpoints. The caller closes them.
	Files    []*os.File
	Progress func(ckpt.Step)
	Notice   func(string)
	// Hold, if not nil, is called before the processes run; they run after it returns. Begin says
	// whether they are restored then.
	Hold func(context.Context) error
}

// Restored is a restored program.
type Restored struct {
	Root      proc.Identity
	Processes int
	Took      time.Duration
	// Tree is the program's first process tree.
	Tree   *restored.Tree
	result *ckpt.RestoreResult
}

// Loaded waits until all memory is loaded, and returns how much it is.
func (r *Restored) Loaded(ctx context.Context) (bytes uint64, err error) {
	return r.result.Loaded(ctx)
}

// restore is one restore in progress.
type restore struct {
	*Checkpoints
	RestoreRequest
	// controls are the paths of the restorers' sockets, one for each tree.
	controls []string
	// place is the process into whose namespaces the program is restored: the caller in a container.
	// The zero Identity stands for phosd's namespaces.
	place proc.Identity
	// root is the root directory of place.
	root *rootdir.Root
	// origin is the checkpoint that is restored.
	origin rundir.Checkpoint
	// files decides about files that have changed since.
	files savedfile.Policy
	// owner is the user of the restored program.
	owner uint32
	// renumbered are its GPUs that have other numbers here than it knows.
	renumbered view.Renumbered
}

// ownPIDs returns the processes that do not count as other programs: the caller may have its output
// in a file of the program.
func ownPIDs(caller api.Caller) []int {
	if caller.Process.PID == 0 {
		return nil
	}
	return []int{caller.Process.PID}
}

// Restore restores an image, and returns when the program runs.
func (c *Checkpoints) Restore(ctx context.Context, request RestoreRequest) (*Restored, error) {
	begun := time.Now()
	r := &restore{Checkpoints: c, RestoreRequest: request}
	if !request.Begin.GetStream() {
		defer c.restoring.add(request.Caller.UID, pathOf(request.Files[0]))()
	}
	result, err := r.run(ctx)
	if r.origin.Dir != "" {
		err = contents.ExplainDamage(r.origin.Dir, err)
	}
	c.metrics.Restored(result, time.Since(begun), err)
	if err != nil {
		c.log.Warn("restore failed", "uid", r.Caller.UID, "error", api.Text(err))
		return nil, err
	}
	done := &Restored{Root: result.Root, Processes: result.Processes, result: result}
	for i, tree := range result.Trees {
		watched := c.trees.Watch(tree, r.controls[i], r.renumbered)
		if i == 0 {
			done.Tree = watched
		}
		r.recordOrigin(tree)
	}
	if r.place.PID == 0 {
		c.boot.Restored(r.origin.Dir, r.owner, result.Root)
	}
	done.Took = time.Since(begun)
	c.log.Info(
		"program restored",
		"pid", done.Root.PID, "uid", r.Caller.UID, "processes", done.Processes, "total", done.Took,
	)
	return done, nil
}

// recordOrigin records the restored image as the last checkpoint of the tree's programs.
func (r *restore) recordOrigin(tree ckpt.Restored) {
	for _, id := range tree.Processes() {
		for _, s := range r.sessions.Of(id) {
			r.sessions.SetCheckpoint(s, r.origin)
		}
	}
}

// run prepares and commits the restore.
func (r *restore) run(ctx context.Context) (*ckpt.RestoreResult, error) {
	if r.options.CPU == nil {
		return nil, errNotBuilt
	}
	endpoints, err := r.endpoints()
	if err != nil {
		return nil, err
	}
	if r.place, err = r.Caller.Container(); err != nil {
		return nil, err
	}
	if r.root, err = rootOf(r.place); err != nil {
		return nil, err
	}
	defer r.root.Close()
	if r.files, err = savedfile.ParsePolicy(r.Begin.GetChangedFiles()); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	prepared, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	group, err := r.cgroup()
	if err != nil {
		prepared.Close()
		return nil, err
	}
	done, err := prepared.Commit(ctx, ckpt.CommitOptions{
		Endpoints: endpoints, NewPids: r.Begin.GetNewPids(), Detach: r.Begin.GetDetach(),
		Control: r.newRestorer, Cgroup: group, Output: r.options.Output, Progress: r.Progress,
		Notice: r.Notice, Place: r.place, Root: r.root, Network: r.Caller.Process,
		Hold: r.Hold, HoldRestored: r.Begin.GetHoldRestored(), Files: r.files, Own: ownPIDs(r.Caller),
		Found: func(tree ckpt.Restored) { r.trees.Found(tree, r.controls[len(r.controls)-1], r.renumbered) },
	})
	if done == nil {
		for _, control := range r.controls {
			r.trees.Forget(control)
		}
	}
	if err != nil && done == nil && ctx.Err() == nil {
		if foreign := r.foreignError(err); foreign != nil {
			err = foreign
		}
	}
	return done, err
}

// foreignError returns an error about files that differ from those that the program had mapped, if
// that is why a restore failed. CRIU's own text does not name the cause. Looking before each
// restore would take too long.
func (r *restore) foreignError(failed error) error {
	if r.Begin.GetStream() {
		return nil
	}
	image, err := r.archive.Open(r.Files[0], r.Begin.GetGeneration(),
		archive.Access{Caller: r.Caller, TrustSeal: r.Begin.GetTrustSeal()})
	if err != nil {
		return nil //nolint:nilerr // failed is returned
	}
	defer image.Close()
	needed, err := image.Needed(r.options.CPU)
	if err != nil {
		return nil //nolint:nilerr // failed is returned
	}
	found := asError(preflight.Foreign(needed, image.Manifest, r.root))
	if found != nil {
		r.log.Info("restore failed because of a file", "error", failed)
	}
	return found
}

// rootOf opens the root directory of place. The caller closes it.
func rootOf(place proc.Identity) (*rootdir.Root, error) {
	root, err := rootdir.Of(place)
	if err != nil {
		return nil, fmt.Errorf("%w: the caller: %w", api.ErrNotPermitted, err)
	}
	return root, nil
}

// cgroup returns the caller's, to which the restored program goes. Without cgroups it stays in
// phosd's.
func (r *restore) cgroup() (string, error) {
	group, _ := cgroup.Of(r.Caller.Process.PID)
	if err := r.Caller.Process.Check(); err != nil {
		return "", fmt.Errorf("%w: the caller: %w", api.ErrNotPermitted, err)
	}
	return group, nil
}

// newRestorer returns the path of a new restorer's socket.
func (r *restore) newRestorer() string {
	control := r.trees.NewRestorer(r.Caller.UID, r.renumbered)
	r.controls = append(r.controls, control)
	return control
}

// endpoints returns the files that take the place of the image's endpoints.
func (r *restore) endpoints() (map[uint32]*os.File, error) {
	ids := r.Begin.GetEndpoints()
	if len(ids) != len(r.Files)-1 {
		return nil, fmt.Errorf("%w: got %d files for %d endpoints", api.ErrInvalid, len(r.Files)-1, len(ids))
	}
	endpoints := make(map[uint32]*os.File, len(ids))
	for i, id := range ids {
		endpoints[id] = r.Files[i+1]
	}
	return endpoints, nil
}

// prepare prepares the image, or takes the prepared image of a pre-restore.
func (r *restore) prepare(ctx context.Context) (*ckpt.Prepared, error) {
	directory := r.Files[0]
	if r.Begin.GetStream() {
		unpacked, remove, err := r.archive.Receive(ctx, directory, r.Caller)
		if err != nil {
			return nil, err
		}
		// The workers have the packs open, so the directory is not needed any longer then.
		defer remove()
		directory = unpacked
	} else {
		r.origin.Dir = pathOf(directory)
	}
	image, err := r.archive.Open(
		directory, r.Begin.GetGeneration(), archive.Access{Caller: r.Caller, TrustSeal: r.Begin.GetTrustSeal()},
	)
	if err != nil {
		return nil, err
	}
	if image.UnknownKey != nil {
		uid := image.Manifest.Owner.UID
		r.Notice(fmt.Sprintf("the image is sealed by the unknown key %s; its program runs as user %d (%s)",
			image.UnknownKey, uid, account.Name(uid)))
	}
	r.origin.Last, r.origin.Generation = image.Manifest.Created, image.Manifest.Generation
	r.owner = image.Manifest.Owner.UID
	gpus, err := r.assign(image, preflight.Choice{Wanted: r.Begin.GetGpus(), Had: r.Begin.GetHadGpus()})
	if err != nil {
		image.Close()
		return nil, err
	}
	r.renumbered = gpus.Numbers
	obstacles := r.obstacles(ctx, image, r.Caller, preflight.Restore{
		NewPids: r.Begin.GetNewPids(), Root: r.root, GPUs: gpus, Notice: r.Notice,
	})
	for _, o := range obstacles {
		if o.Harmless {
			r.Notice(o.Subject + ": " + o.Reason)
		}
	}
	if refused, err := r.refusedFiles(image.Manifest); err != nil {
		image.Close()
		return nil, err
	} else if err := asError(append(obstacles, refused...)); err != nil {
		image.Close()
		return nil, err
	}
	if prepared := r.prepared.take(keyOf(image, r.Caller, r.root, gpus)); prepared != nil {
		image.Close()
		return prepared, nil
	}
	return r.prepareImage(ctx, image, preparation{r.Begin.GetEager(), r.root, gpus, r.Caller, r.Progress})
}

// refusedFiles returns the files that prevent the restore. Commit looks again, and gives notice of
// the others.
func (r *restore) refusedFiles(m *image.Manifest) ([]ckpt.Obstacle, error) {
	decisions, err := ckpt.DecideFiles(m, ckpt.CommitOptions{
		Root: r.root, NewPids: r.Begin.GetNewPids(), Files: r.files, Own: ownPIDs(r.Caller),
	})
	return ckpt.RefusedFiles(decisions), err
}

// preparation says how to prepare an image: for whose account, below which root, on which GPUs.
type preparation struct {
	eager    bool
	root     *rootdir.Root
	gpus     preflight.GPUs
	caller   api.Caller
	progress func(ckpt.Step)
}

// prepareImage prepares everything of an image but its processes. It closes the image.
func (c *Checkpoints) prepareImage(
	ctx context.Context,
	image *archive.Image,
	how preparation,
) (*ckpt.Prepared, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := c.archive.Work(ctx, archive.WorkOptions{
		MemoryBytes: uint64(c.config.MemoryBudget) / 2, Caller: how.caller, Cancel: cancel,
	})
	return ckpt.Prepare(ctx, ckpt.PrepareOptions{
		Source: image.Source, CPU: c.options.CPU, Worker: c.startWorker(how.gpus),
		Work: work, Library: c.archive.Library,
		Eager: how.eager, Deadline: c.config.Deadline(), Progress: how.progress, Log: c.log, Fail: c.options.Failpoints,
		Root: how.root,
	})
}
