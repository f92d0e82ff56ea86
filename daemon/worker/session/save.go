package session

import (
	"cmp"
	gocontext "context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// saving is a session on its way to bytes. What each kind of object writes down stands beside the
// kind.
type saving struct {
	out    saved.Session
	images map[*object.Image]int // places in out.Images
	err    error                 // the first
}

// savable is the state of an object of any kind.
type savable interface{ save(k *saving) saved.State }

// Save writes down everything but the content of memory. The session must be quiet; the error is
// ErrBusy or ErrCapturing where it is not.
func (s *Session) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.restless(); err != nil {
		return nil, err
	}
	k := &saving{images: map[*object.Image]int{}}
	k.out.Made, k.out.Completed = s.made.Load(), s.completed.Load()
	k.out.Handles = s.objects.LastIndices()
	k.out.LastCapture = s.captures.LastID()
	k.out.Devices = make([]saved.Device, len(s.devices))
	s.saveStreams(k)
	s.saveMemory(k)
	s.saveContexts(k)
	s.saveCode(k)
	for o := range s.objects.Records() {
		if !o.Retired() {
			k.out.Objects = append(k.out.Objects, k.object(o))
		}
	}
	k.out.Exporter = s.shares.name()
	if k.err != nil {
		return nil, k.err
	}
	return saved.Encode(&k.out)
}

func (k *saving) object(o *object.Object) saved.Object {
	out := saved.Object{ID: o.ID, Kind: o.Kind, State: o.State.(savable).save(k)}
	if o.Owner != nil {
		out.Owner = o.Owner.ID
	}
	return out
}

func (k *saving) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// image returns the place of an image among those that are saved. The first to come stand first, so
// that code which is there for long stays where it is from one time to the next.
func (k *saving) image(image *object.Image) int {
	at, known := k.images[image]
	if !known {
		at = len(k.out.Images)
		k.images[image] = at
		k.out.Images = append(k.out.Images, image.Bytes)
	}
	return at
}

// resumable is a device's context as one that can be saved.
func (k *saving) resumable(d *device) gpu.Resumable {
	c, can := d.context.(gpu.Resumable)
	if !can {
		k.fail(&gpu.Error{Op: "save session", Code: abi.NotSupported, Detail: d.info.Name + " cannot be saved"})
		return nothing{}
	}
	return c
}

// nothing stands for a context that cannot be saved, after the error is noted.
type nothing struct{}

func (nothing) Continuation() gpu.Continuation       { return gpu.Continuation{} }
func (nothing) Moment(gpu.Event) (gpu.Moment, error) { return gpu.Moment{}, nil }
func (nothing) Poison(error)                         {}

// restoring is a session on its way back from bytes.
type restoring struct {
	in     *saved.Session
	images []restoredImage
	// instantiate makes executables ready, settle gives functions their attributes: when everything is
	// there.
	instantiate, settle []func() error
}

// restoredImage is code that objects name by its place.
type restoredImage struct {
	kept   *object.Image
	parsed *fatbin.Images
}

// damaged is an error about a saved session that decodes, and of which no session can be made.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", saved.ErrDamaged, fmt.Sprintf(format, args...))
}

// Restore makes the session again that Save wrote down. The content of device memory is what
// options.Backing brings, that of the arena must be there already. The program hears nothing of it:
// words and replies are not touched.
func Restore(options Options, data []byte) (*Session, error) {
	in, err := saved.Decode(data)
	if err != nil {
		return nil, err
	}
	s, err := newSession(options)
	if err != nil {
		return nil, err
	}
	r := &restoring{in: in}
	err = s.restoreAll(r)
	if err == nil {
		err = s.reopen(r)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("restore session: %w", err), s.Close())
	}
	return s, nil
}

func (s *Session) restoreAll(r *restoring) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := []func(*restoring) error{
		s.restoreCounters, s.restoreWindows, s.restorePlace, s.restoreParse, s.restoreDevices, s.restoreObjects,
		s.restoreReservations, s.restoreRelated,
	}
	for _, step := range steps {
		if err := step(r); err != nil {
			return err
		}
	}
	for _, step := range r.instantiate {
		if err := step(); err != nil {
			return err
		}
	}
	for _, step := range r.settle {
		if err := step(); err != nil {
			return err
		}
	}
	return s.restoreFaults(r)
}

// reopenTime is how long the sessions that share memory with one another may take to come back.
const reopenTime = 60 * time.Second

// reopen shares again what was shared: first what others wait for, then what this session has
// of others. No lock is held, and nothing runs yet.
func (s *Session) reopen(r *restoring) error {
	if r.in.Exporter != (ipc.ID{}) {
		if err := s.shares.resume(r.in.Exporter); err != nil {
			return err
		}
	}
	ctx, cancel := gocontext.WithTimeout(gocontext.Background(), cmp.Or(s.options.Patience, reopenTime))
	defer cancel()
	if err := s.reopenMemory(ctx); err != nil {
		return err
	}
	return s.reopenEvents(ctx)
}

// indexLimit is far above what any program reaches, and leaves room for going on.
const indexLimit = 1 << 31

func (s *Session) restoreCounters(r *restoring) error {
	if len(r.in.Devices) == 0 || len(r.in.Devices) > len(s.devices) {
		return damaged("it had %d GPUs, there are %d", len(r.in.Devices), len(s.devices))
	}
	s.devices = s.devices[:len(r.in.Devices)] // the program knows no others
	for kind, index := range r.in.Handles {
		if kind == 0 || kind > int(abi.LastKind) || index > indexLimit {
			if index != 0 {
				return damaged("%d objects of kind %d were made", index, kind)
			}
			continue
		}
		s.objects.ReserveHandle(abi.NewHandle(abi.Kind(kind), index))
	}
	s.made.Store(r.in.Made)
	s.completed.Store(r.in.Completed)
	s.captures.Resume(r.in.LastCapture)
	return s.restoreWords(r)
}

// restorePlace takes the addresses of everything in the arena, and finds those of each device.
func (s *Session) restorePlace(r *restoring) error {
	s.live = map[*device][]gpu.Range{}
	for i := range r.in.Objects {
		o := &r.in.Objects[i]
		switch state := o.State.(type) {
		case *saved.Memory:
			if err := s.restorePlaceAt(r, gpu.Range{Address: o.ID, Bytes: state.Bytes}, o.Kind == object.KindPinned); err != nil {
				return err
			}
		case *saved.Block:
			if state.Token.Exporter != (ipc.ID{}) {
				continue // it is not the heap's
			}
			if err := s.restorePlaceAt(r, state.Home, false); err != nil {
				return err
			}
		case *saved.Module:
			for _, v := range state.Variables {
				if err := s.restorePlaceAt(r, v.Range, v.Managed); err != nil {
					return err
				}
			}
		}
	}
	for _, ranges := range s.live {
		slices.SortFunc(ranges, func(a, b gpu.Range) int { return cmp.Compare(a.Address, b.Address) })
	}
	return nil
}

func (s *Session) restorePlaceAt(r *restoring, at gpu.Range, inArena bool) error {
	if inArena {
		return s.arena.AllocateAt(at)
	}
	d := s.holder(at.Address)
	if d == nil {
		return damaged("%#x is no address of a GPU", at.Address)
	}
	s.live[d] = append(s.live[d], at)
	return nil
}

// restoreDevices opens those that have contexts, or memory that belongs to none.
func (s *Session) restoreDevices(r *restoring) error {
	open := make([]bool, len(s.devices))
	for i := range r.in.Objects {
		device := int32(-1)
		switch state := r.in.Objects[i].State.(type) {
		case *saved.Context:
			device = state.Device
		case *saved.Block:
			device = state.Device
		}
		if device >= 0 && int(device) < len(open) {
			open[device] = true
		}
	}
	for i, d := range s.devices {
		if err := s.restoreDevice(r, d, &r.in.Devices[i], open[i]); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return nil
}

// restoreParse takes apart all code.
func (s *Session) restoreParse(r *restoring) error {
	for _, image := range r.in.Images {
		parsed, err := fatbin.Parse(image)
		if err != nil {
			return damaged("code: %v", err)
		}
		r.images = append(r.images, restoredImage{s.objects.Images.Keep(image), parsed})
	}
	return nil
}

// restoreObjects makes every object, in the order in which they were made.
func (s *Session) restoreObjects(r *restoring) error {
	for i := range r.in.Objects {
		if err := s.restoreObject(r, &r.in.Objects[i]); err != nil {
			return fmt.Errorf("%s: %w", name(r.in.Objects[i].Kind, r.in.Objects[i].ID), err)
		}
	}
	for _, image := range r.images { // who uses one has counted itself
		s.objects.Images.Discard(image.kept)
	}
	return nil
}

func name(kind abi.Kind, id uint64) string {
	if kind > abi.LastKind {
		return fmt.Sprintf("memory at %#x", id)
	}
	return abi.Handle(id).String()
}

func (s *Session) restoreObject(r *restoring, in *saved.Object) error {
	o := &object.Object{ID: in.ID, Kind: in.Kind}
	if in.Kind <= abi.LastKind {
		if o.Handle().Kind() != in.Kind || o.Handle().Index() == 0 || o.Handle().Index() > indexLimit {
			return damaged("it is no %v", in.Kind)
		}
		s.objects.ReserveHandle(o.Handle())
	}
	if s.objects.Get(in.ID) != nil {
		return damaged("it is there twice")
	}
	if in.Owner != 0 {
		if o.Owner = s.objects.Get(in.Owner); o.Owner == nil {
			return damaged("its owner %#x is not there", in.Owner)
		}
	}
	var err error
	if o.State, err = s.restoreState(r, o, in.State); err != nil {
		return err
	}
	s.objects.Add(o)
	return nil
}

// restoreState makes what the session keeps with an object.
func (s *Session) restoreState(r *restoring, o *object.Object, in saved.State) (any, error) {
	for _, t := range s.topics() {
		if state, err := t(r, o, in); state != nil || err != nil {
			return state, err
		}
	}
	return nil, damaged("it is of an unknown kind")
}

func (s *Session) topics() []func(r *restoring, o *object.Object, in saved.State) (any, error) {
	return []func(r *restoring, o *object.Object, in saved.State) (any, error){
		s.restoreStreams, s.restoreMemory, s.restoreContexts, s.restoreCodes, s.restoreGraphs,
	}
}

// ownerOf is the state of an object's owner, which must be of a certain kind.
func ownerOf[T any](o *object.Object) (owner T, err error) {
	if o.Owner != nil {
		if owner, is := o.Owner.State.(T); is {
			return owner, nil
		}
	}
	return owner, damaged("its owner is not what it must be")
}

// restoreRelated finishes what had to wait for younger objects.
func (s *Session) restoreRelated(r *restoring) error {
	if err := s.restorePools(r); err != nil {
		return err
	}
	if err := s.restorePrimaries(r); err != nil {
		return err
	}
	return s.restoreRelations(r)
}

// restoreRelations finishes graphs that name younger ones.
func (s *Session) restoreRelations(r *restoring) error {
	for i := range r.in.Objects {
		if g, is := r.in.Objects[i].State.(*saved.Graph); is && g.Record != nil {
			if err := s.graphs.Relate(g.Record); err != nil {
				return err
			}
		}
	}
	return nil
}

// Memory is the memory of a GPU that the program uses.
type Memory struct {
	Ordinal int
	gpu.Memory
	// Mapped are the ranges of chunks that have memory, by address.
	Mapped []gpu.Range
}

// GPUs is how many the program knows.
func (s *Session) GPUs() int { return len(s.devices) }

// Memories lists the memory of the GPUs that are open.
func (s *Session) Memories() []Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	var memories []Memory
	for _, d := range s.devices {
		if d.context != nil {
			memories = append(memories, Memory{d.ordinal, d.context.Memory(), slices.Collect(d.heap.Mapped())})
		}
	}
	return memories
}

// ArenaRanges lists the pages of the arena that are in use, by address.
func (s *Session) ArenaRanges() []gpu.Range {
	var ranges []gpu.Range
	for r := range s.arena.Allocations() {
		r.Bytes = (r.Bytes + heap.PageBytes - 1) &^ (heap.PageBytes - 1)
		ranges = append(ranges, r)
	}
	return ranges
}

// Counts returns how many objects of each kind are living.
func (s *Session) Counts() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]uint64{}
	for o := range s.objects.Records() {
		switch {
		case o.Retired():
		case o.Kind == object.KindMemory:
			counts["memory"]++
		case o.Kind == object.KindImported:
			counts["shared memory"]++
		case o.Kind == object.KindPinned:
			counts["pinned memory"]++
		case o.Kind == object.KindRegistered:
			counts["registered memory"]++
		default:
			counts[o.Kind.String()]++
		}
	}
	return counts
}
