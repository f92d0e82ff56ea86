package phosd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/restored"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// restoring is one restore that somebody wants.
type restoring struct {
	daemon  *Daemon
	actor   api.Actor
	request *api.RestoreBegin
	files   []*os.File
	out     *api.Teller[*api.RestoreEvent]
	commits chan struct{}
	signals chan int
	// unwanted ends the attempt; once the program runs it does nothing.
	unwanted chan struct{}
	// controls are the places of the trees' keepers.
	controls []string
	// origin is the checkpoint that is brought back.
	origin rundir.Checkpoint
}

// Restore brings a saved tree back.
func (s *service) Restore(stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent]) error {
	actor, first, err := firstOf(stream)
	if err != nil {
		return err
	}
	begin := first.GetBegin()
	if begin == nil && first.GetFollow() == nil {
		return fmt.Errorf("%w: a restore begins with its order", api.ErrInvalid)
	}
	r := &restoring{
		daemon: s.daemon, actor: actor, request: begin,
		out:     &api.Teller[*api.RestoreEvent]{Send: stream.Send},
		commits: make(chan struct{}, 1), signals: make(chan int, 16), unwanted: make(chan struct{}, 1),
	}
	if begin != nil {
		if r.files, err = s.daemon.takeFiles(begin.GetFiles(), actor); err != nil {
			return err
		}
	}
	defer func() { closeAll(r.files) }()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go r.listen(stream, cancel)
	if again := first.GetFollow(); again != nil {
		err = r.goOn(ctx, again.GetTree())
	} else {
		err = r.run(ctx)
	}
	return errors.Join(err, r.out.Finish())
}

// listen takes what the caller says while the restore goes on.
func (r *restoring) listen(
	stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent],
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
			select {
			case r.unwanted <- struct{}{}:
			default:
			}
		case command.GetCommit() != nil:
			select {
			case r.commits <- struct{}{}:
			default:
			}
		case command.GetSignal() != 0:
			select {
			case r.signals <- int(command.GetSignal()):
			default: // a signal that nobody takes is one of many
			}
		}
	}
}

// run is the restore from its order to the program's end.
func (r *restoring) run(ctx context.Context) error {
	begun := time.Now()
	brought, err := r.bringUnlessUnwanted(ctx)
	var trees []*restored.Tree
	if err == nil {
		for i, each := range brought.Trees {
			trees = append(trees, r.daemon.trees.Watch(each, r.controls[i]))
			r.noteOrigin(each)
		}
	}
	r.daemon.metrics.Restored(brought, err)
	if err != nil {
		r.daemon.log.Warn("restore failed", "uid", r.actor.UID, "error", err)
		return err
	}
	took := time.Since(begun)
	r.daemon.log.Info(
		"restored",
		"pid",
		brought.Root.PID,
		"uid",
		r.actor.UID,
		"processes",
		brought.Processes,
		"total",
		took,
	)
	// The caller's terminal and pipes are the program's now; here they would only keep pipes open.
	closeAll(r.files)
	r.files = nil
	if r.request.GetDetach() {
		mayGo(ctx)
	}
	if err := r.out.Tell(&api.RestoreEvent{Event: &api.RestoreEvent_Running{Running: &api.RestoreRunning{
		Pid: r.actor.Calls(brought.Root), Processes: uint64(brought.Processes), TotalMicroseconds: uint64(took.Microseconds()),
		Tree: trees[0].Name(),
	}}}); err != nil {
		return nil // nobody listens; the program runs
	}
	loading := make(chan struct{})
	go func() {
		defer close(loading)
		r.tellLoaded(ctx, brought, begun)
	}()
	if r.request.GetDetach() {
		<-loading
		return nil
	}
	return r.follow(ctx, trees[0], loading)
}

// goOn follows a tree whose restore an earlier phosd has begun, or this one for somebody who was
// cut off.
func (r *restoring) goOn(ctx context.Context, name string) error {
	root, err := r.daemon.trees.Find(name, r.actor)
	if err != nil {
		return err
	}
	loaded := make(chan struct{})
	close(loaded)
	return r.follow(ctx, root, loaded)
}

// noteOrigin makes the image that a program came from its last checkpoint.
func (r *restoring) noteOrigin(tree ckpt.Restored) {
	for _, id := range tree.Processes() {
		for _, s := range r.daemon.table.of(id) {
			s.noted.Store(&r.origin)
			r.daemon.keepNote(s)
		}
	}
}

// tellLoaded tells when all memory is back.
func (r *restoring) tellLoaded(ctx context.Context, brought *ckpt.Brought, begun time.Time) {
	bytes, err := brought.Loaded(ctx)
	if err != nil {
		if ctx.Err() == nil {
			_ = r.out.Tell(
				&api.RestoreEvent{Event: &api.RestoreEvent_Notice{Notice: "memory is missing: " + err.Error()}},
			)
		}
		return
	}
	_ = r.out.Tell(&api.RestoreEvent{Event: &api.RestoreEvent_Loaded{Loaded: &api.RestoreLoaded{
		Bytes: bytes, TotalMicroseconds: uint64(time.Since(begun).Microseconds()),
	}}})
}

// follow passes signals on until the root of the tree has ended.
func (r *restoring) follow(ctx context.Context, root *restored.Tree, loading <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case signal := <-r.signals:
				if err := root.Signal(signal); err != nil {
					r.daemon.log.Debug("pass a signal on", "signal", signal, "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	status, err := root.Wait(ctx)
	if ctx.Err() != nil {
		return nil // the caller has left; the program runs on
	}
	if err != nil && r.daemon.stopping.Err() != nil {
		return fmt.Errorf("%w: this one ends", api.ErrNoDaemon) // the next one knows the tree
	}
	if err != nil {
		return fmt.Errorf("wait for the program: %w", err)
	}
	cancel()
	<-loading
	mayGo(ctx)
	return r.out.Tell(
		&api.RestoreEvent{Event: &api.RestoreEvent_Ended{Ended: &api.RestoreEnded{Status: int32(status)}}},
	)
}

// bringUnlessUnwanted is bring until the caller gives up.
func (r *restoring) bringUnlessUnwanted(ctx context.Context) (*ckpt.Brought, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.unwanted:
			cancel(errGivenUp)
		case <-ctx.Done():
		}
	}()
	return r.bring(ctx)
}

// bring does everything up to the running program.
func (r *restoring) bring(ctx context.Context) (*ckpt.Brought, error) {
	d, request := r.daemon, r.request
	if d.options.CPU == nil {
		return nil, fmt.Errorf("%w: this phosd was built without checkpoints", api.ErrNotBuilt)
	}
	endpoints, err := r.endpoints()
	if err != nil {
		return nil, err
	}
	prepared, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	// A restored program belongs to whoever restores it; where there are no cgroups it goes to none.
	place, _ := cgroup.Of(int(r.actor.PID))
	order := ckpt.BringOrder{
		Endpoints: endpoints, NewPids: request.GetNewPids(), Detach: request.GetDetach(),
		Control: r.newKeeper, Cgroup: place, Output: d.options.WorkerLog, Progress: r.progress,
		Notice: r.notice, Place: r.actor.Place(),
	}
	if request.GetHold() {
		order.Hold = func(ctx context.Context) error {
			if err := r.out.Tell(&api.RestoreEvent{Event: &api.RestoreEvent_Held{Held: &api.RestoreHeld{}}}); err != nil {
				return err
			}
			return awaitCommit(ctx, r.commits)
		}
	}
	return prepared.Bring(ctx, order)
}

func (r *restoring) newKeeper() string {
	control := r.daemon.trees.NewKeeper(r.actor.UID)
	r.controls = append(r.controls, control)
	return control
}

func (r *restoring) progress(now ckpt.Step) {
	r.out.TellLatest(now.Phase, &api.RestoreEvent{Event: &api.RestoreEvent_Step{Step: stepOf(now)}})
}

func (r *restoring) notice(text string) {
	_ = r.out.Tell(
		&api.RestoreEvent{Event: &api.RestoreEvent_Notice{Notice: text}},
	) // who does not listen needs not know
}

// endpoints are the files that stand for the image's outside ends.
func (r *restoring) endpoints() (map[uint32]*os.File, error) {
	ids := r.request.GetEndpoints()
	if len(ids) != len(r.files)-1 {
		return nil, fmt.Errorf("%w: %d files for %d ends", api.ErrInvalid, len(r.files)-1, len(ids))
	}
	endpoints := make(map[uint32]*os.File, len(ids))
	for i, id := range ids {
		endpoints[id] = r.files[i+1]
	}
	return endpoints, nil
}

// prepare makes the image ready, or takes what a pre-restore has made ready.
func (r *restoring) prepare(ctx context.Context) (*ckpt.Prepared, error) {
	d := r.daemon
	directory := r.files[0]
	if r.request.GetStream() {
		unpacked, clear, err := d.archive.Receive(ctx, directory, r.actor)
		if err != nil {
			return nil, err
		}
		// The workers have the packs open: the directory may go.
		defer clear()
		directory = unpacked
	}
	image, err := d.archive.Open(directory, r.request.GetGeneration(), r.actor)
	if err != nil {
		return nil, err
	}
	r.origin = rundir.Checkpoint{Last: image.Manifest.Created, Generation: image.Manifest.Generation}
	if !r.request.GetStream() {
		r.origin.Dir = pathOf(directory)
	}
	obstacles := d.machine.Obstacles(ctx, image.Manifest, r.request.GetNewPids(), r.actor.Place())
	if !d.warm.has(image, r.actor) {
		obstacles = append(obstacles, d.machine.RoomObstacles(ctx, image.Manifest)...)
	}
	for _, o := range obstacles {
		if o.Harmless {
			r.notice(o.Subject + ": " + o.Reason)
		}
	}
	if serious := ckpt.Serious(obstacles); len(serious) > 0 {
		image.Close()
		return nil, fmt.Errorf(
			"%w: cannot be restored here: %w",
			api.ErrInvalid,
			&ckpt.ObstacleError{Obstacles: serious},
		)
	}
	if warm := d.warm.take(image, r.actor); warm != nil {
		image.Close()
		return warm, nil
	}
	return d.prepare(ctx, image, r.request.GetEager(), r.actor.Place(), r.progress)
}

// prepare makes everything of an image ready but its processes, and takes the image over.
func (d *Daemon) prepare(
	ctx context.Context,
	image *archive.Image,
	eager bool,
	place proc.Identity,
	progress func(ckpt.Step),
) (*ckpt.Prepared, error) {
	settings := d.options.Config.Checkpoint
	return ckpt.Prepare(ctx, ckpt.PrepareOrder{
		Source: image.Source, CPU: d.options.CPU, Worker: d.revive, Work: d.archive.WorkWithin(uint64(settings.MemoryBudget)),
		Library: d.archive.Library, Eager: eager, Deadline: settings.Deadline(), Progress: progress, Log: d.log, Fail: d.options.Failpoints,
		Place: place,
	})
}
