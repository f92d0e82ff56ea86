package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/exports"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func notInGraphs(op string) error {
	return &gpu.Error{Op: op, Code: abi.NotSupported, Detail: "events between processes in graphs are not built"}
}

func (s *Streams) ipcExportEvent(_ *core.Call, in *wire.IpcExportEvent, out *wire.IpcExportEventReply) error {
	e, err := s.event(in.Event)
	if err != nil {
		return err
	}
	if e.counter == nil || e.token != (ipc.Token{}) {
		return &gpu.Error{
			Op:     "export event",
			Code:   abi.InvalidHandle,
			Detail: "it was not made for other processes, or by another one",
		}
	}
	if e.export == (ipc.ID{}) {
		key := ipc.NewID()
		if err := s.Exports.Offer(key, exports.Offer{Counter: e.counter}); err != nil {
			return err
		}
		e.export = key
	}
	out.Exporter0, out.Exporter1 = exports.Halves(s.Exports.Name())
	out.Key0, out.Key1 = exports.Halves(e.export)
	return nil
}

func (s *Streams) ipcOpenEvent(call *core.Call, in *wire.IpcOpenEvent, out *wire.IpcOpenEventReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	token := ipc.Token{Exporter: exports.Join(in.Exporter0, in.Exporter1), Key: exports.Join(in.Key0, in.Key1)}
	if token.Exporter == s.Exports.Name() {
		return &gpu.Error{Op: "open shared event", Code: abi.InvalidContext, Detail: "it is this process's own"}
	}
	release := c.Hold(nil)
	return call.Detach(func() error {
		defer release()
		counter, err := fetchCounter(func() (ipc.Grant, error) { return s.Exports.Dir.Fetch(ipc.Event, token) })
		if err != nil {
			return err
		}
		s.Mu.Lock()
		defer s.Mu.Unlock()
		e := &event{context: c, device: c.Device, word: noWord, counter: counter, token: token}
		if err := s.addEvent(call, e); err != nil {
			return err
		}
		out.Event = e.object.Handle()
		return nil
	})
}

// fetchCounter opens the counter that an event's exporter grants.
func fetchCounter(fetch func() (ipc.Grant, error)) (*ipc.Counter, error) {
	g, err := fetch()
	if err != nil {
		return nil, err
	}
	return ipc.OpenCounter(g.File)
}

// queryShared says whether the latest recording, wherever it was made, was reached.
func (e *event) queryShared() error {
	if err := e.device.GPU.Fault(); err != nil {
		return err
	}
	if !e.counter.Reached(e.counter.Asked()) {
		return abi.NotReady
	}
	return nil
}

// synchronizeShared waits, without the lock, until recordings of all processes so far are reached.
func (s *Streams) synchronizeShared(call *core.Call, e *event) error {
	target := e.counter.Asked()
	if e.counter.Reached(target) {
		return e.device.GPU.Fault()
	}
	e.users.Add(1)
	release := e.context.Hold(nil)
	device := e.device.GPU
	return call.Detach(func() error {
		defer release()
		defer e.drop(s)
		e.await(s, device, target)
		return device.Fault()
	})
}

// waitShared is streamWaitEvent: for what was recorded here, as for any event, else the stream
// looks at the counter.
func (s *Streams) waitShared(st *core.Stream, e *event) error {
	target := e.counter.Asked()
	switch {
	case e.counter.Reached(target):
		return nil
	case e.ours == target:
		return st.Enqueue(gpu.Await{Event: e.work})
	}
	e.users.Add(1)
	device := st.Context.Device.GPU
	err := st.Enqueue(gpu.Call{Func: func() {
		defer e.drop(s)
		e.await(s, device, target)
	}})
	if err != nil {
		e.drop(s)
	}
	return err
}

// aliveEvery is how often a wait for another process checks that the process is alive.
const aliveEvery = time.Second

// await returns when a recording was reached, when its exporter has ended, or when the session or
// the device must not wait any longer. It holds no lock.
func (e *event) await(s *Streams, device gpu.Context, target uint64) {
	asked := time.Now()
	for wait := 10 * time.Microsecond; !e.counter.Reached(target); wait = min(2*wait, time.Millisecond) {
		select {
		case <-s.Ended:
			return
		case <-time.After(wait):
		}
		if device.Fault() != nil {
			return
		}
		if e.token != (ipc.Token{}) && time.Since(asked) > aliveEvery {
			if !s.Exports.Dir.Alive(e.token.Exporter) {
				s.Log.Warn("the program that an event is shared with has ended", "event", e.object.Handle().String())
				return
			}
			asked = time.Now()
		}
	}
}

// unshare gives up the event's part in other processes.
func (e *event) unshare(s *Streams) {
	if e.counter == nil {
		return
	}
	if e.export != (ipc.ID{}) {
		s.Exports.Withdraw(e.export)
	}
	_ = e.counter.Close() // nothing depends on it
}

// saveShared notes what others have of the event. One whose maker has ended is this session's own
// from then on.
func (e *event) saveShared(exporters ipc.Dir) *saved.SharedEvent {
	if e.counter == nil {
		return nil
	}
	out := &saved.SharedEvent{Count: e.counter.Asked(), Export: e.export, Token: e.token}
	if e.token != (ipc.Token{}) && !exporters.Alive(e.token.Exporter) {
		out.Token = ipc.Token{}
	}
	return out
}

// restoreShared makes an event again that is for other processes. One of theirs comes when they are
// there.
func (s *Streams) restoreShared(r *core.Decoder, e *event, in *saved.SharedEvent) (err error) {
	if in == nil {
		return nil
	}
	e.export, e.token = in.Export, in.Token
	if e.counter, err = ipc.NewCounter(in.Count); err != nil {
		return err
	}
	switch {
	case e.token != (ipc.Token{}):
		s.unopened = append(s.unopened, e)
	case e.export != (ipc.ID{}):
		return s.RestoreExport(r, e.export, exports.Offer{Counter: e.counter})
	}
	return nil
}

// reopen has the counter of another session in place of the one that stood for it.
func (e *event) reopen(ctx context.Context, dir ipc.Dir) error {
	counter, err := fetchCounter(func() (ipc.Grant, error) { return dir.Await(ctx, ipc.Event, e.token) })
	if err != nil {
		return err
	}
	_ = e.counter.Close() // it stood in for the real one
	e.counter = counter
	return nil
}

// Reopen opens the events of other sessions again.
func (s *Streams) Reopen(ctx context.Context) error {
	for _, e := range s.unopened {
		if err := e.reopen(ctx, s.Exports.Dir); err != nil {
			return fmt.Errorf("%v of another program: %w", e.object.Handle(), err)
		}
	}
	s.unopened = nil
	return nil
}
