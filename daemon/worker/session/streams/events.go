package streams

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// event is a driver event. Its completion word holds the count of the last record that was reached,
// so that the program can query it without a call.
type event struct {
	object  *object.Object
	context *core.Context
	device  *core.Device
	work    gpu.Event
	timing  bool
	word    uint32
	// recorded is the count of the last record submitted, 0 for none.
	recorded uint64
	// captured is where in a capture the event was recorded, when that was the last record.
	captured graph.Mark
	// users counts the program's handle and the records that are under way; the last one frees word
	// and event.
	users atomic.Int32
	// counter is what other processes have too of an event that is for them, nil of any other. ours is
	// the last recording that was made here. export is the key under which others can have it, token
	// where it was had from; zero for none.
	counter *ipc.Counter
	ours    uint64
	export  ipc.ID
	token   ipc.Token

	mu sync.Mutex // streams use what follows
	// counted is the last count that the program gave, also of a record that was refused: its queries
	// compare the word with it. reached is the last count that a stream has reached, of asked.
	counted, asked, reached uint64
	// inGraph events are recorded by launches of graphs too, which have no counts.
	inGraph bool
}

// Flags of events.
const (
	eventBlocking      = 1
	eventDisableTiming = 2
	eventInterprocess  = 4
	recordExternal     = 1
)

// words hands out completion words. It has a lock of its own, because streams give them back.
type words struct {
	mu   sync.Mutex
	free []uint32
	next uint32
}

// noWord tells the program to ask instead of looking.
const noWord = ^uint32(0)

// take returns a free completion word, the one released last first; noWord if all are in use.
func (w *words) take() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		word := w.free[n-1]
		w.free = w.free[:n-1]
		return word
	}
	if w.next == wire.EventCount {
		return noWord
	}
	w.next++
	return w.next - 1
}

// release makes a word free again.
func (w *words) release(word uint32) {
	if word == noWord {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, word)
}

// event returns the event of a handle. An event of an ending context is an error.
func (s *Streams) event(h abi.Handle) (*event, error) {
	e, err := core.Find[*event](s.Core, abi.KindEvent, h)
	if err != nil {
		return nil, err
	}
	if e.context.Ending {
		return nil, &gpu.Error{Op: "find event", Code: abi.ContextIsDestroyed}
	}
	return e, nil
}

func (s *Streams) eventCreate(call *core.Call, in *wire.EventCreate, out *wire.EventCreateReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	switch {
	case in.Flags&^(eventBlocking|eventDisableTiming|eventInterprocess) != 0,
		in.Flags&(eventDisableTiming|eventInterprocess) == eventInterprocess:
		return core.Invalid("create event", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	e := &event{context: c, device: c.Device, timing: in.Flags&eventDisableTiming == 0, word: noWord}
	if in.Flags&eventInterprocess == 0 {
		e.word = s.words.take()
	} else if e.counter, err = ipc.NewCounter(0); err != nil {
		return err
	}
	if err := s.addEvent(call, e); err != nil {
		return err
	}
	if e.word != noWord {
		s.Answers.Complete(e.word, 0)
	}
	out.Event, out.Word = e.object.Handle(), e.word
	return nil
}

// addEvent makes the backend's half of an event and enters it.
func (s *Streams) addEvent(call *core.Call, e *event) (err error) {
	if e.work, err = e.device.GPU.NewEvent(gpu.EventOptions{Timing: e.timing}); err != nil {
		s.words.release(e.word)
		if e.counter != nil {
			_ = e.counter.Close() // the first error says more
		}
		return err
	}
	e.users.Store(1)
	e.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindEvent)), Kind: abi.KindEvent,
		Maker: call.Maker(), Parent: e.context.Object, State: e,
	})
	return nil
}

// drop gives up one use of the event.
func (e *event) drop(s *Streams) {
	if e.users.Add(-1) == 0 {
		s.words.release(e.word)
		_ = e.work.Close()
		e.unshare(s)
	}
}

func (s *Streams) eventDestroy(_ *core.Call, in *wire.EventDestroy) error {
	e, err := s.event(in.HEvent)
	if err != nil {
		return err
	}
	s.Destroy(e.object)
	return nil
}

func (s *Streams) eventRecord(call *core.Call, in *wire.EventRecord) error {
	e, err := s.event(in.Event)
	if err != nil {
		return err
	}
	if err := s.record(call, e, in); err != nil {
		e.countRefused(s, in.Count)
		return err
	}
	return nil
}

// countRefused makes the word right after a record that did not happen: the program has counted it
// already, and would wait forever for a stream to reach it.
func (e *event) countRefused(s *Streams, count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counted = max(e.counted, count)
	if e.reached == e.asked {
		e.writeWord(s, e.counted)
	}
}

// ask notes that a stream will reach a count.
func (e *event) ask(count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.counted = count, max(e.counted, count)
}

// reach says in the word that a stream has reached a count, and with the last one, all that were
// refused since.
func (e *event) reach(s *Streams, count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = max(e.reached, count)
	count = e.reached
	if e.reached == e.asked {
		count = e.counted
	}
	e.writeWord(s, count)
}

// writeWord stores what the word says. The event's mu is held.
func (e *event) writeWord(s *Streams, count uint64) {
	if e.word != noWord && !e.inGraph {
		s.Answers.Complete(e.word, count)
	}
}

// joinGraph makes the program ask from now on, and not look at the word. It must come before the
// answer to the call that puts the event into an executable graph: the program may launch that and
// query the event at once.
func (e *event) joinGraph(s *Streams) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writeWord(s, wire.EventAsk)
	e.inGraph = true
}

// answer is the answer to a question about the event. When it has been reached, the word says so
// before the program hears of it, or its next query, which looks at the word alone, could go back
// on the answer: the stream writes the word a little later than the backend knows.
func (e *event) answer(s *Streams, count uint64, err error) error {
	if err == nil {
		e.reach(s, count)
	}
	return err
}

// record enqueues a recording of the event, or adds it to the capture of the stream.
func (s *Streams) record(call *core.Call, e *event, in *wire.EventRecord) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.Context.Device != e.device {
		return &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "event and stream are on different GPUs"}
	}
	if st.Line.Capturing() {
		if e.counter != nil {
			return notInGraphs("record event")
		}
		if in.Flags&recordExternal != 0 {
			_, err := st.Line.Add(graph.EventRecord{Event: in.Event})
			return err
		}
		mark, err := st.Line.Mark()
		if err == nil {
			e.captured = mark
		}
		return err
	}
	if err := s.RequireUncaptured(st, "record event"); err != nil {
		return err
	}
	if err := st.Enqueue(gpu.Record{Event: e.work}); err != nil {
		return err
	}
	e.captured = graph.Mark{}
	e.recorded = max(in.Count, e.recorded+1)
	e.ask(e.recorded)
	if e.counter != nil {
		e.ours = e.counter.Ask()
	}
	return st.Submit(gpu.Completion{Func: s.reached(e, e.recorded)})
}

// reached is what a stream runs after it has recorded an event.
func (s *Streams) reached(e *event, count uint64) func() {
	e.users.Add(1)
	context, ours := e.device.GPU, e.ours
	return func() {
		if err := context.Fault(); err != nil {
			s.Answers.Fail(gpu.Code(err)) // before the program believes the word
		}
		e.reach(s, count)
		if e.counter != nil {
			e.counter.Reach(ours)
		}
		e.drop(s)
	}
}

// checkUncaptured refuses questions about an event that was recorded into a capture, which they
// spoil.
func (e *event) checkUncaptured(op string) error {
	if !e.captured.Captured() {
		return nil
	}
	e.captured.Invalidate()
	return &gpu.Error{Op: op, Code: abi.CapturedEvent, Detail: "it was last recorded in a captured stream"}
}

func (s *Streams) eventQuery(call *core.Call, in *wire.EventQuery) error {
	e, err := s.event(in.Event)
	if err != nil {
		return err
	}
	if err := e.checkUncaptured("query event"); err != nil {
		return err
	}
	if err := s.Captures.Unsafe(call.Slot, call.Mode()); err != nil {
		return err
	}
	if e.counter != nil {
		return e.queryShared()
	}
	return e.answer(s, e.recorded, e.work.Query())
}

func (s *Streams) eventSynchronize(call *core.Call, in *wire.EventSynchronize) error {
	e, err := s.event(in.Event)
	if err != nil {
		return err
	}
	if err := e.checkUncaptured("synchronize event"); err != nil {
		return err
	}
	if err := s.Captures.Unsafe(call.Slot, call.Mode()); err != nil {
		return err
	}
	if e.counter != nil {
		return s.synchronizeShared(call, e)
	}
	count := e.recorded
	if err := e.work.Query(); gpu.Code(err) != abi.NotReady {
		return e.answer(s, count, err)
	}
	e.users.Add(1)
	release := e.context.Hold(nil)
	return call.Detach(func() error {
		defer release()
		defer e.drop(s)
		return e.answer(s, count, e.work.Synchronize())
	})
}

func (s *Streams) eventElapsedTime(_ *core.Call, in *wire.EventElapsedTime, out *wire.EventElapsedTimeReply) error {
	start, err := s.event(in.HStart)
	if err != nil {
		return err
	}
	end, err := s.event(in.HEnd)
	if err != nil {
		return err
	}
	if !start.timing || !end.timing || start.recorded == 0 || end.recorded == 0 || start.device != end.device {
		return &gpu.Error{
			Op:     "measure elapsed time",
			Code:   abi.InvalidHandle,
			Detail: "an event has no time, or was never recorded",
		}
	}
	for _, e := range []*event{start, end} {
		if err := e.work.Query(); err != nil {
			return err
		}
	}
	out.PMilliseconds, err = end.work.ElapsedSince(start.work)
	return err
}

func (w *words) Save() saved.Words {
	w.mu.Lock()
	defer w.mu.Unlock()
	return saved.Words{Free: slices.Clone(w.free), Next: w.next}
}

func (w *words) restore(in *saved.Words) error {
	if in.Next > wire.EventCount || len(in.Free) > wire.EventCount {
		return core.Damaged("%d completion words", in.Next)
	}
	for _, word := range in.Free {
		if word >= in.Next {
			return core.Damaged("completion word %d was never taken", word)
		}
	}
	w.free, w.next = in.Free, in.Next
	return nil
}

// Save writes the event.
func (e *event) Save(to *core.Encoder) saved.State {
	shared := e.saveShared(to.Exporters)
	reached, err := to.Resumable(e.device).EventTime(e.work)
	if err != nil {
		to.Fail(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return &saved.Event{
		Timing: e.timing, Time: reached, Word: e.word, Recorded: e.recorded,
		Counted: e.counted, Asked: e.asked, Reached: e.reached,
		InGraph: e.inGraph, Captured: e.captured.Captured(), Shared: shared,
	}
}

// restoreEvent makes an event that was recorded when it was. Its completion word is the program's,
// and says already what it should.
func (s *Streams) restoreEvent(r *core.Decoder, o *object.Object, in *saved.Event) (*event, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	if in.Word != noWord && in.Word >= r.In.Words.Next {
		return nil, core.Damaged("completion word %d was never taken", in.Word)
	}
	work, err := c.Device.GPU.NewEvent(gpu.EventOptions{Timing: in.Timing, Time: in.Time})
	if err != nil {
		return nil, err
	}
	e := &event{
		object: o, context: c, device: c.Device, work: work, timing: in.Timing, word: in.Word, recorded: in.Recorded,
		counted: in.Counted, asked: in.Asked, reached: in.Reached, inGraph: in.InGraph,
	}
	if in.Captured {
		e.captured = graph.PastCapture()
	}
	e.users.Store(1)
	return e, s.restoreShared(r, e, in.Shared)
}

// CheckEvent returns an error where a handle is not that of an event.
func (s *Streams) CheckEvent(h abi.Handle) error {
	_, err := s.event(h)
	return err
}

// RecordInGraph returns the work of a node that records an event.
func (s *Streams) RecordInGraph(h abi.Handle) (gpu.Work, error) {
	e, err := s.event(h)
	if err != nil {
		return nil, err
	}
	if e.counter != nil {
		return nil, notInGraphs("record event in a graph")
	}
	e.recorded = max(e.recorded, 1)
	e.joinGraph(s)
	return gpu.Record{Event: e.work}, nil
}

// AwaitInGraph returns the work of a node that waits for an event.
func (s *Streams) AwaitInGraph(h abi.Handle) (gpu.Work, error) {
	e, err := s.event(h)
	if err != nil {
		return nil, err
	}
	if e.counter != nil {
		return nil, notInGraphs("wait for event in a graph")
	}
	return gpu.Await{Event: e.work}, nil
}

// EventWork returns the backend's half of an event, nil where the event does not exist.
func (s *Streams) EventWork(h abi.Handle) gpu.Event {
	if o := s.Objects.Get(uint64(h)); o != nil {
		if e, ok := o.State.(*event); ok {
			return e.work
		}
	}
	return nil
}
