package phosd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// saving is one checkpoint that somebody wants.
type saving struct {
	actor   api.Actor
	request *api.CheckpointBegin
	// files are the image directory, or what to write a stream to. They are closed by whoever made the
	// saving.
	files []*os.File
	// as is with whose rights the directory's files are touched.
	as       fsuid.Rights
	kinds    []string
	progress func(ckpt.Step)
	notice   func(string)
	hold     func(context.Context) error
	// byPolicy says that nobody asked for it.
	byPolicy bool
}

// Checkpoint saves process trees.
func (s *service) Checkpoint(stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent]) (err error) {
	actor, first, err := firstOf(stream)
	if err != nil {
		return err
	}
	begin := first.GetBegin()
	if begin == nil {
		return fmt.Errorf("%w: a checkpoint begins with its order", api.ErrInvalid)
	}
	files, err := s.daemon.takeFiles(begin.GetFiles(), actor)
	if err != nil {
		return err
	}
	defer closeAll(files)
	for i, pid := range begin.GetPids() {
		if begin.Pids[i], err = actor.Means(pid); err != nil {
			return err
		}
	}
	kinds, err := image.ChooseKinds(begin.GetTargets(), begin.GetSkipTargets())
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	out := &api.Teller[*api.CheckpointEvent]{Send: stream.Send}
	defer func() { err = errors.Join(err, out.Finish()) }()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	commits := make(chan struct{}, 1)
	go listenToSaver(stream, commits, cancel)
	want := saving{actor: actor, request: begin, files: files, as: archive.RightsOf(actor), kinds: kinds}
	want.progress = func(now ckpt.Step) {
		out.TellLatest(now.Phase, &api.CheckpointEvent{Event: &api.CheckpointEvent_Step{Step: stepOf(now)}})
	}
	want.notice = func(text string) {
		_ = out.Tell(&api.CheckpointEvent{Event: &api.CheckpointEvent_Notice{Notice: text}})
	}
	if begin.GetHold() {
		want.hold = func(ctx context.Context) error {
			if err := out.Tell(&api.CheckpointEvent{Event: &api.CheckpointEvent_Held{Held: &api.CheckpointHeld{}}}); err != nil {
				return err
			}
			return awaitCommit(ctx, commits)
		}
	}
	saved, err := s.daemon.checkpoint(ctx, want)
	if err != nil {
		return err
	}
	mayGo(ctx)
	return out.Tell(&api.CheckpointEvent{Event: &api.CheckpointEvent_Done{Done: doneOf(saved)}})
}

// firstOf receives how a stream of commands begins, and from whom.
func firstOf[Command, Event any](
	stream grpc.BidiStreamingServer[Command, Event],
) (actor api.Actor, first *Command, err error) {
	if actor, err = api.ActorOf(stream.Context()); err != nil {
		return actor, nil, err
	}
	if err := actor.Seen(); err != nil {
		return actor, nil, err
	}
	first, err = stream.Recv()
	return actor, first, err
}

// errGivenUp is why something ends that its caller does not want any more.
var errGivenUp = fmt.Errorf("the caller has given up: %w", context.Canceled)

// listenToSaver takes what the caller says while the checkpoint goes on.
func listenToSaver(
	stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent],
	commits chan<- struct{},
	cancel context.CancelCauseFunc,
) {
	for {
		command, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return // nothing more comes; the caller waits for the end
		case err != nil:
			cancel(errGivenUp)
			return
		case command.GetCancel() != nil:
			cancel(errGivenUp)
		case command.GetCommit() != nil:
			select {
			case commits <- struct{}{}:
			default:
			}
		}
	}
}

func awaitCommit(ctx context.Context, commits <-chan struct{}) error {
	select {
	case <-commits:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no commit came: %w", context.Cause(ctx))
	}
}

func stepOf(now ckpt.Step) *api.Step {
	return &api.Step{Phase: now.Phase, DoneBytes: now.DoneBytes, TotalBytes: now.TotalBytes}
}

func doneOf(saved *ckpt.Saved) *api.CheckpointDone {
	m := saved.Manifest
	return &api.CheckpointDone{
		Generation: m.Generation, PauseMicroseconds: uint64(saved.Pause.Microseconds()),
		TotalMicroseconds: uint64(
			saved.Total.Microseconds(),
		), WrittenBytes: m.Stats.WrittenBytes, SharedBytes: m.Stats.SharedBytes,
		GpuWrittenBytes: saved.GPUWrittenBytes, MemoryBytes: saved.MemoryBytes, Processes: uint64(len(m.Processes)),
		TookMicroseconds: tookOf(saved),
	}
}

// tookOf is how long everything took.
func tookOf(saved *ckpt.Saved) map[string]uint64 {
	took := make(map[string]uint64, len(saved.Took)+len(saved.Within))
	for name, each := range saved.Took {
		took[name] = uint64(each.Microseconds())
	}
	for part, each := range saved.Within {
		took["cut."+part] = uint64(each.Microseconds())
	}
	return took
}

// checkpoint carries a checkpoint out, and keeps count of it.
func (d *Daemon) checkpoint(ctx context.Context, want saving) (*ckpt.Saved, error) {
	pids := want.request.GetPids()
	sessions := d.below(pids)
	for _, s := range sessions {
		s.saving.Add(1)
		defer s.saving.Add(-1)
	}
	saved, err := d.save(ctx, want)
	d.metrics.Checkpointed(saved, err, want.byPolicy)
	if err != nil {
		d.log.Warn("checkpoint failed", "pids", pids, "uid", want.actor.UID, "policy", want.byPolicy, "error", err)
		if !errors.Is(err, context.Canceled) {
			d.note(sessions, nil, err)
		}
		return saved, err
	}
	done := &rundir.Checkpoint{Last: time.Now(), Generation: saved.Manifest.Generation}
	if !want.request.GetStream() {
		done.Dir = pathOf(want.files[0])
	}
	d.log.Info(
		"checkpoint",
		"pids",
		pids,
		"uid",
		want.actor.UID,
		"policy",
		want.byPolicy,
		"dir",
		done.Dir,
		"generation",
		done.Generation,
		"pause",
		saved.Pause,
		"total",
		saved.Total,
		"written",
		saved.Manifest.Stats.WrittenBytes,
		"shared",
		saved.Manifest.Stats.SharedBytes,
		"stopped",
		want.request.GetStop(),
	)
	d.log.Debug("checkpoint", "pids", pids, "took", saved.Took, "within", saved.Within)
	if len(want.kinds) == 0 { // nobody can be brought back from a part
		d.note(sessions, done, nil)
	}
	return saved, nil
}

// save saves trees of which processes may end at any time: as long as their roots are there, what
// is left is saved.
func (d *Daemon) save(ctx context.Context, want saving) (*ckpt.Saved, error) {
	if d.options.CPU == nil {
		return nil, fmt.Errorf("%w: this phosd was built without checkpoints", api.ErrNotBuilt)
	}
	roots, err := d.rootsOf(want)
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; {
		saved, err := d.saveOnce(ctx, want, roots)
		if err == nil || saved != nil {
			return saved, err
		}
		for _, root := range roots {
			if _, zombie := root.Zombie(); zombie || root.Gone() {
				return nil, fmt.Errorf("%w any more: pid %d ended while it was saved", api.ErrNoProgram, root.PID)
			}
		}
		if !errors.Is(err, ckpt.ErrEnded) || time.Since(begun) > d.deadlineOf(want) {
			return nil, err
		}
		d.log.Info("a process ended while it was saved; again", "error", err)
		select {
		case <-time.After(endedTime):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// endedTime is about as long as it takes to notice that a program has ended.
const endedTime = 20 * time.Millisecond

func (d *Daemon) deadlineOf(want saving) time.Duration {
	if given := want.request.GetDeadlineMilliseconds(); given > 0 {
		return time.Duration(min(given, uint64(24*time.Hour/time.Millisecond))) * time.Millisecond
	}
	return d.options.Config.Checkpoint.Deadline()
}

func (d *Daemon) saveOnce(ctx context.Context, want saving, roots []proc.Identity) (*ckpt.Saved, error) {
	target, err := d.target(ctx, want)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	settings, request := d.options.Config.Checkpoint, want.request
	budget := orDefault(request.GetBudgetBytes(), uint64(settings.MemoryBudget))
	return ckpt.Save(ctx, ckpt.SaveOrder{
		Roots: roots, CPU: d.options.CPU,
		Admit:   func(trees []*ckpt.Tree) error { return admit(want.actor, trees) },
		Devices: d.devicesOf, Work: d.archive.WorkWithin(budget),
		Image: ckpt.Target{Dir: target.Dir, Seal: d.archive.Seal},
		Manifest: image.Manifest{
			Phos: api.Version, Group: request.GetGroup(), Host: thisHost(), Owner: ownerOf(roots[0]), Kinds: want.kinds,
		},
		Options: ckpt.DeviceOptions{
			BudgetBytes:    budget,
			BandwidthBytes: orDefault(request.GetBandwidthBytes(), uint64(settings.Bandwidth)),
			Compress:       request.GetCompress() || settings.Compress, Kinds: want.kinds,
			StopTheWorld: request.GetStopTheWorld(), Progress: want.progress,
		},
		FileBytes: uint64(settings.FileLimit), Deadline: d.deadlineOf(want), Stop: request.GetStop(),
		Hold: want.hold, Publish: target.Publish, Untracked: d.untracked, Notice: want.notice, Log: d.log, Fail: d.options.Failpoints,
	})
}

// ownerOf has the name alone: the numbers are those of the tree that is saved.
func ownerOf(root proc.Identity) image.Owner {
	uid, err := root.UID()
	if err != nil {
		return image.Owner{} // it has ended, which others find as well
	}
	return image.Owner{Name: knownName(uid)}
}

func orDefault(given, otherwise uint64) uint64 {
	if given == 0 {
		return otherwise
	}
	return given
}

// rootsOf finds the processes that a request means, of those that the caller may know of.
func (d *Daemon) rootsOf(want saving) ([]proc.Identity, error) {
	pids := want.request.GetPids()
	if len(pids) == 0 {
		return nil, fmt.Errorf("%w: no program is named", api.ErrInvalid)
	}
	var roots []proc.Identity
	for _, pid := range pids {
		id, err := proc.Of(int(pid))
		if err != nil {
			return nil, unseen(int(pid), err)
		}
		if err := want.mayBegin(id); err != nil {
			return nil, err
		}
		roots = append(roots, id)
	}
	return roots, nil
}

// mayBegin refuses a root before its tree is looked at: nobody learns anything of what is
// another's, and nobody who asks would stand still himself until somebody lets him go on.
func (w *saving) mayBegin(root proc.Identity) error {
	owner, err := root.UID()
	switch {
	case err != nil:
		return unseen(root.PID, err)
	case !w.actor.May(owner):
		return notYours(root.PID)
	case root.PID == 1:
		return fmt.Errorf("%w: pid 1 is what everything here was started by; name a program", api.ErrInvalid)
	case !w.byPolicy && proc.Descends(int(w.actor.PID), root.PID):
		return fmt.Errorf(
			"%w: pid %d (%s) has started the very pos_cli that asks, which would have to be saved with it; ask from elsewhere, or name the program itself",
			api.ErrInvalid,
			root.PID,
			root.Name(),
		)
	}
	return nil
}

// unseen is why a program cannot be looked at: it is not there, unless phosd lacks what it takes to
// look.
func unseen(pid int, err error) error {
	if proc.Unknown(err) {
		return fmt.Errorf("pid %d: %w", pid, err)
	}
	return fmt.Errorf("%w: pid %d", api.ErrNoProgram, pid)
}

func notYours(pid int) error {
	return fmt.Errorf("%w: pid %d is another user's; ask as that user, or as root", api.ErrNotPermitted, pid)
}

// admit refuses trees that are not wholly the caller's, and those in which nothing runs through
// phosd.
func admit(actor api.Actor, trees []*ckpt.Tree) error {
	for _, tree := range trees {
		for _, p := range tree.Processes {
			if !actor.May(p.UID) {
				return notYours(p.PID)
			}
		}
	}
	return nil
}

// placing are the rights with which names in the image directory are touched: the caller's; but
// where root saves a user's programs into a directory of that user, they are the user's, who can
// use the image then, and it together with what he saved himself.
func (w *saving) placing() fsuid.Rights {
	var dir unix.Stat_t
	if w.as.UID != 0 || unix.Fstat(int(w.files[0].Fd()), &dir) != nil || dir.Uid == 0 {
		return w.as
	}
	for _, pid := range w.request.GetPids() {
		var program unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &program) != nil || program.Uid != dir.Uid {
			return w.as
		}
	}
	return fsuid.Rights{UID: dir.Uid, GID: dir.Gid}
}

// target is the image directory that is named, or the stream.
func (d *Daemon) target(ctx context.Context, want saving) (*archive.Target, error) {
	if want.request.GetStream() {
		return d.archive.IntoStream(ctx, want.files[0])
	}
	return d.archive.Into(want.files[0], want.placing())
}
