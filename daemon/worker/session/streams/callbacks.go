package streams

import (
	"errors"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// callbacksAtOnce bounds how many functions wait in the program's ring, which holds four times as
// many.
const callbacksAtOnce = 256

// callbacks is the set of functions that streams wait for. It has a lock of its own, because
// streams use it.
type callbacks struct {
	session *Streams

	mu      sync.Mutex
	waiting map[uint64]chan struct{}
	lastID  uint64
	sending int // functions that no stream waits for and that are not in the ring yet
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
		err := c.session.Answers.Callback(callback)
		if err == nil {
			return true
		}
		if !errors.Is(err, abi.NotReady) {
			c.session.Log.Warn("call host function", "error", err)
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
func (s *Streams) HostFunctions() int { return s.callbacks.outstanding() }

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

// HostFunction is what a stream runs for a function of the program. After a fault host functions
// are no longer called; stream callbacks are, with the fault as their status.
func (s *Streams) HostFunction(c *core.Context, callback wire.Callback) func() {
	backend := c.Device.GPU
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

func (s *Streams) hostFunc(call *core.Call, in *wire.HostFunc) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.Line.Capturing() && in.Kind == wire.CallbackHost {
		_, err := st.Line.Add(graph.Host{Function: in.Function, UserData: in.UserData})
		return err
	}
	if err := s.RequireUncaptured(st, "add stream callback"); err != nil {
		return err
	}
	callback := wire.Callback{Kind: in.Kind, Function: in.Function, UserData: in.UserData, Stream: in.Stream}
	return st.Enqueue(gpu.Call{Func: s.HostFunction(st.Context, callback)})
}

// FinishCallback lets go of the stream that waits for a function. It reports false when none does.
func (s *Streams) FinishCallback(id uint64) bool { return s.callbacks.finish(id) }

func (s *Streams) callbackDone(_ *core.Call, in *wire.CallbackDone) error {
	if in.Id != 0 && !s.FinishCallback(in.Id) { // 0 is a destructor's, which no stream waits for
		return core.Invalid("finish host function", "no such function is running")
	}
	return nil
}

// ping does nothing.
func (s *Streams) ping(*core.Call) error { return nil }
