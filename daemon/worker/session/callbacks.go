package session

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// callbacksAtOnce bounds how many functions wait in the program's ring, which holds four times as
// many.
const callbacksAtOnce = 256

// callbacks is the set of functions that streams wait for. It has a lock of its own, because
// streams use it.
type callbacks struct {
	session *Session

	mu      sync.Mutex
	waiting map[uint64]chan struct{}
	lastID  uint64
	sending int // functions that nobody waits for and that are not in the ring yet
	stop    chan struct{}
	room    chan struct{}
	closed  bool
}

// init needs the lock.
func (c *callbacks) init() {
	if c.stop == nil {
		c.stop, c.room = make(chan struct{}), make(chan struct{}, callbacksAtOnce)
		c.waiting = map[uint64]chan struct{}{}
	}
}

// run asks the program to run a function and waits until it has, or the session closes.
func (c *callbacks) run(callback wire.Callback) {
	c.mu.Lock()
	c.init()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.lastID++
	callback.ID = c.lastID
	done := make(chan struct{})
	c.waiting[callback.ID] = done
	stop, room := c.stop, c.room
	c.mu.Unlock()
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-stop:
		return
	}
	if c.post(callback, stop) {
		select {
		case <-done:
		case <-stop:
		}
	}
}

// send asks the program to run a function, some time later.
func (c *callbacks) send(callback wire.Callback) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	c.sending++
	go func() {
		c.post(callback, c.stop)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sending--
	}()
}

// outstanding counts the functions that were not asked for yet, or have not returned.
func (c *callbacks) outstanding() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sending + len(c.waiting)
}

// last is the id that was given out last.
func (c *callbacks) last() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// resume makes ids go on after one.
func (c *callbacks) resume(last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = last
}

// post puts a callback into the program's ring, waiting while it is full.
func (c *callbacks) post(callback wire.Callback, stop chan struct{}) bool {
	for {
		err := c.session.answers.Callback(callback)
		if err == nil {
			return true
		}
		if !errors.Is(err, abi.NotReady) {
			c.session.log.Warn("call host function", "error", err)
			return false
		}
		select {
		case <-stop:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// finish lets go of the stream that waits for a function. It reports false when none does.
func (c *callbacks) finish(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.waiting[id]
	if done == nil {
		return false
	}
	delete(c.waiting, id)
	close(done)
	return true
}

// HostFunctions is how many functions of the program streams wait for.
func (s *Session) HostFunctions() int { return s.callbacks.outstanding() }

// close lets go of every stream that waits for a function.
func (c *callbacks) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	if !c.closed {
		c.closed = true
		close(c.stop)
	}
}

// hostFunction is what a stream runs for a function of the program. After a fault host functions
// are not called any more, stream callbacks are, with the fault as their status.
func (s *Session) hostFunction(c *context, callback wire.Callback) func() {
	backend := c.device.context
	return func() {
		callback := callback
		if err := backend.Fault(); err != nil {
			if callback.Kind == wire.CallbackHost {
				return
			}
			callback.Status = gpu.Code(err)
		}
		s.callbacks.run(callback)
	}
}

func (s *Session) hostFunc(call *Call, in *wire.HostFunc) error {
	st, err := s.stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.line.Capturing() && in.Kind == wire.CallbackHost {
		_, err := st.line.Add(graph.Host{Function: in.Function, UserData: in.UserData})
		return err
	}
	if err := s.uncaptured(st, "add stream callback"); err != nil {
		return err
	}
	callback := wire.Callback{Kind: in.Kind, Function: in.Function, UserData: in.UserData, Stream: in.Stream}
	return s.enqueue(st, gpu.Call{Func: s.hostFunction(st.context, callback)})
}

func (s *Session) callbackDone(_ *Call, in *wire.CallbackDone) error {
	if in.Id != 0 && !s.callbacks.finish(in.Id) { // 0 is a destructor's, which nobody waits for
		return invalid("finish host function", "no such function is running")
	}
	return nil
}

// ping does nothing.
func (s *Session) ping(*Call) error { return nil }

// userObject is a destructor of the program with a count of references.
type userObject struct {
	object            *object.Object
	argument, destroy uint64
	count             uint64
}

func (s *Session) userObject(h abi.Handle) (*userObject, error) {
	return find[*userObject](s, abi.KindUserObject, h)
}

func (s *Session) userObjectCreate(call *Call, in *wire.UserObjectCreate, out *wire.UserObjectCreateReply) error {
	const noDestructorSync = 1
	if in.Flags != noDestructorSync || in.InitialRefcount == 0 || in.Destroy == 0 {
		return invalid("create user object", "flags, count or destructor")
	}
	u := &userObject{argument: in.Ptr, destroy: in.Destroy, count: uint64(in.InitialRefcount)}
	u.object = s.objects.Add(&object.Object{
		ID: uint64(s.objects.NextHandle(abi.KindUserObject)), Kind: abi.KindUserObject,
		Maker: call.maker(), State: u,
	})
	out.ObjectOut = u.object.Handle()
	return nil
}

func (s *Session) userObjectRetain(_ *Call, in *wire.UserObjectRetain) error {
	u, err := s.userObject(in.Object)
	if err == nil {
		u.count += uint64(in.Count)
	}
	return err
}

func (s *Session) userObjectRelease(_ *Call, in *wire.UserObjectRelease) error {
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	return s.dropUserObject(u, in.Count)
}

// dropUserObject takes references away; with the last one the program's destructor is called, some
// time later.
func (s *Session) dropUserObject(u *userObject, count uint32) error {
	if uint64(count) > u.count {
		return invalid("release user object", "more references than there are")
	}
	u.count -= uint64(count)
	if u.count > 0 {
		return nil
	}
	destructor := wire.Callback{Kind: wire.CallbackDestroy, Function: u.destroy, UserData: u.argument}
	s.objects.Destroy(u.object, s.release)
	s.callbacks.send(destructor)
	return nil
}

func (s *Session) graphRetainUserObject(_ *Call, in *wire.GraphRetainUserObject) error {
	const move = 1
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	if in.Count == 0 || in.Flags > move {
		return invalid("retain user object", "count or flags")
	}
	if in.Flags != move {
		u.count += uint64(in.Count)
	}
	if h.graph.References == nil {
		h.graph.References = map[abi.Handle]uint32{}
	}
	h.graph.References[in.Object] += in.Count
	return nil
}

func (s *Session) graphReleaseUserObject(_ *Call, in *wire.GraphReleaseUserObject) error {
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	if in.Count == 0 || in.Count > h.graph.References[in.Object] {
		return invalid("release user object", "the graph has fewer references")
	}
	if h.graph.References[in.Object] -= in.Count; h.graph.References[in.Object] == 0 {
		delete(h.graph.References, in.Object)
	}
	return s.dropUserObject(u, in.Count)
}

// shareReferences gives a copy of a graph references of its own.
func (s *Session) shareReferences(references map[abi.Handle]uint32) map[abi.Handle]uint32 {
	for h, count := range references {
		if u, err := s.userObject(h); err == nil {
			u.count += uint64(count)
		}
	}
	return maps.Clone(references)
}

func (s *Session) dropReferences(references map[abi.Handle]uint32) {
	for h, count := range references {
		if u, err := s.userObject(h); err == nil {
			_ = s.dropUserObject(u, count) // cannot be more than there are
		}
	}
}

func (u *userObject) save(*saving) saved.State {
	return &saved.UserObject{Argument: u.argument, Destroy: u.destroy, Count: u.count}
}

func (s *Session) restoreUserObject(r *restoring, o *object.Object, in *saved.UserObject) (*userObject, error) {
	if in.Count == 0 {
		return nil, damaged("it has no references")
	}
	return &userObject{object: o, argument: in.Argument, destroy: in.Destroy, count: in.Count}, nil
}

// saveStreams writes what is beside the objects.
func (s *Session) saveStreams(k *saving) {
	k.out.LastCallback, k.out.Words = s.callbacks.last(), s.words.save()
}

// restoreWords brings what is beside the objects.
func (s *Session) restoreWords(r *restoring) error {
	s.callbacks.resume(r.in.LastCallback)
	return s.words.restore(&r.in.Words)
}

// restoreStreams makes the state of an object, nil for an object of another topic.
func (s *Session) restoreStreams(r *restoring, o *object.Object, in saved.State) (any, error) {
	switch in := in.(type) {
	case *saved.Stream:
		return s.restoreStream(r, o, in)
	case *saved.Event:
		return s.restoreEvent(r, o, in)
	}
	return nil, nil
}

// releaseStreams frees what an object held when it is destroyed, by itself or with its parent.
func (s *Session) releaseStreams(o *object.Object) {
	switch state := o.State.(type) {
	case *stream:
		state.close()
	case *event:
		state.drop(s)
	}
}
