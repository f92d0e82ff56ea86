package phosd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
)

// warmth holds images that were made ready for a restore to come.
type warmth struct {
	mu     sync.Mutex // guards all below
	ready  map[warmKey]*warmImage
	making map[warmKey]*warming
}

// warming is an image that is being made ready.
type warming struct {
	giveUp context.CancelCauseFunc
	ended  chan struct{}
}

// warmKey names a generation of an image, wherever it lies, and who had it made ready.
type warmKey struct {
	store      image.ID
	generation uint64
	uid        uint32
}

type warmImage struct {
	prepared *ckpt.Prepared
	// forget gives it back after a time.
	forget *time.Timer
}

func keyOf(image *archive.Image, actor api.Actor) warmKey {
	return warmKey{image.Store(), image.Manifest.Generation, actor.UID}
}

// take is what was made ready of an image; nil: nothing.
func (w *warmth) take(image *archive.Image, actor api.Actor) *ckpt.Prepared {
	return w.remove(keyOf(image, actor))
}

// has reports whether an image is ready: then its memory is there.
func (w *warmth) has(image *archive.Image, actor api.Actor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready[keyOf(image, actor)] != nil
}

func (w *warmth) remove(key warmKey) *ckpt.Prepared {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.ready[key]
	if found == nil {
		return nil
	}
	delete(w.ready, key)
	found.forget.Stop()
	return found.prepared
}

// put keeps an image for a while. It says false when there is one already.
func (w *warmth) put(key warmKey, prepared *ckpt.Prepared, keep time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready == nil {
		w.ready = make(map[warmKey]*warmImage)
	}
	if w.ready[key] != nil {
		return false
	}
	w.ready[key] = &warmImage{prepared: prepared, forget: time.AfterFunc(keep, func() {
		if late := w.remove(key); late != nil {
			late.Drop()
		}
	})}
	return true
}

// begin notes that an image is being made ready, so that it can be given up; end is called when
// that has come to its end.
func (w *warmth) begin(key warmKey, giveUp context.CancelCauseFunc) (end func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.making == nil {
		w.making = make(map[warmKey]*warming)
	}
	if w.making[key] != nil {
		return nil, fmt.Errorf("%w: this image is being made ready already", api.ErrInvalid)
	}
	made := &warming{giveUp, make(chan struct{})}
	w.making[key] = made
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.making, key)
		close(made.ended)
	}, nil
}

// cancel takes back what was made ready of an image, and what is being made; it returns when
// nothing is left.
func (w *warmth) cancel(key warmKey) {
	w.mu.Lock()
	made := w.making[key]
	w.mu.Unlock()
	if made != nil {
		made.giveUp(errGivenUp)
		<-made.ended
	}
	if prepared := w.remove(key); prepared != nil {
		prepared.Drop()
	}
}

// drop gives everything back.
func (w *warmth) drop() {
	w.mu.Lock()
	all := w.ready
	w.ready = nil
	w.mu.Unlock()
	for _, each := range all {
		each.forget.Stop()
		each.prepared.Drop()
	}
}

// PreRestore makes the next restore of an image fast, or takes that back.
func (s *service) PreRestore(
	request *api.PreRestoreRequest,
	stream grpc.ServerStreamingServer[api.RestoreEvent],
) error {
	ctx := stream.Context()
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return err
	}
	if err := actor.Seen(); err != nil {
		return err
	}
	files, err := s.daemon.takeFiles(request.GetFiles(), actor)
	if err != nil {
		return err
	}
	defer closeAll(files)
	image, err := s.daemon.archive.Open(files[0], request.GetGeneration(), actor)
	if err != nil {
		return err
	}
	if request.GetCancel() {
		defer image.Close()
		s.daemon.warm.cancel(keyOf(image, actor))
		return nil
	}
	out := &api.Teller[*api.RestoreEvent]{Send: stream.Send}
	err = s.daemon.warmUp(ctx, image, actor, out)
	return errors.Join(err, out.Finish())
}

// warmUp unpacks an image, has its workers load all memory, and keeps that.
func (d *Daemon) warmUp(
	ctx context.Context,
	image *archive.Image,
	actor api.Actor,
	out *api.Teller[*api.RestoreEvent],
) error {
	if d.options.CPU == nil {
		image.Close()
		return fmt.Errorf("%w: this phosd was built without checkpoints", api.ErrNotBuilt)
	}
	// A pid that is taken now may be free when the restore comes.
	obstacles := d.machine.Obstacles(ctx, image.Manifest, true, actor.Place())
	if !d.warm.has(image, actor) {
		obstacles = append(obstacles, d.machine.RoomObstacles(ctx, image.Manifest)...)
	}
	if serious := ckpt.Serious(obstacles); len(serious) > 0 {
		image.Close()
		return fmt.Errorf("%w: cannot be restored here: %w", api.ErrInvalid, &ckpt.ObstacleError{Obstacles: serious})
	}
	progress := func(now ckpt.Step) {
		out.TellLatest(now.Phase, &api.RestoreEvent{Event: &api.RestoreEvent_Step{Step: stepOf(now)}})
	}
	begun, key := time.Now(), keyOf(image, actor)
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	end, err := d.warm.begin(key, giveUp)
	if err != nil {
		image.Close()
		return err
	}
	defer end()
	prepared, err := d.prepare(ctx, image, true, actor.Place(), progress)
	if err != nil {
		return err
	}
	keep := time.Duration(d.options.Config.Checkpoint.WarmSeconds) * time.Second
	if !d.warm.put(key, prepared, keep) {
		prepared.Drop()
		return fmt.Errorf("%w: this image is ready already", api.ErrInvalid)
	}
	var bytes uint64
	for _, p := range image.Manifest.Processes {
		if p.GPU != nil {
			bytes += p.GPU.MemoryBytes
		}
	}
	return out.Tell(&api.RestoreEvent{Event: &api.RestoreEvent_Loaded{Loaded: &api.RestoreLoaded{
		Bytes: bytes, TotalMicroseconds: uint64(time.Since(begun).Microseconds()),
	}}})
}
