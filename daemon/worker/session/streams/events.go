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

// Event is a driver event. Its completion word holds the count of the last record that was reached,
// so that the program can query it without a call.
type Event struct {
	object  *object.Object
	context *core.Context
	device  *core.Device
	Work    gpu.Event
	timing  bool
	word    uint32
	// recorded is the count of the last record submitted, 0 for none.
	Recorded uint64
	// captured is where in a capture the event was recorded, when that was the last record.
	captured graph.Mark
	// users counts the program's handle and the records that are under way; the last one frees word
	// and event.
	users atomic.Int32
	// counter is what other processes have too of an event that is for them, nil of any other. ours is
	// the last recording that was made here. export is the key under which others can have it, token
	// where it was had from; zero for none.
	Counter *ipc.Counter
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
	EventDisableTiming = 2
	EventInterprocess  = 4
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

func (w *words) give(word uint32) {
	if word == noWord {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, word)
}

func (s *Streams) Event(h abi.Handle) (*Event, error) {
	e, err := core.Find[*Event](s.Core, abi.KindEvent, h)
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
	case in.Flags&^(eventBlocking|EventDisableTiming|EventInterprocess) != 0,
		in.Flags&(EventDisableTiming|EventInterprocess) == EventInterprocess:
		return core.Invalid("create event", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	e := &Event{context: c, device: c.Device, timing: in.Flags&EventDisableTiming == 0, word: noWord}
	if in.Flags&EventInterprocess == 0 {
		e.word = s.words.take()
	} else if e.Counter, err = ipc.NewCounter(0); err != nil {
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
func (s *Streams) addEvent(call *core.Call, e *Event) (err error) {
	if e.Work, err = e.device.GPU.NewEvent(gpu.EventOptions{Timing: e.timing}); err != nil {
		s.words.give(e.word)
		if e.Counter != nil {
			_ = e.Counter.Close() // the first error says more
		}
		return err
	}
	e.users.Store(1)
	e.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindEvent)), Kind: abi.KindEvent,
		Maker: call.Maker(), Owner: e.context.Object, State: e,
	})
	return nil
}

// drop gives up one use of the event.
func (e *Event) drop(s *Streams) {
	if e.users.Add(-1) == 0 {
		s.words.give(e.word)
		_ = e.Work.Close()
		e.unshare(s)
	}
}

func (s *Streams) eventDestroy(_ *core.Call, in *wire.EventDestroy) error {
	e, err := s.Event(in.HEvent)
	if err != nil {
		return err
	}
	s.Destroy(e.object)
	return nil
}

func (s *Streams) eventRecord(call *core.Call, in *wire.EventRecord) error {
	e, err := s.Event(in.Event)
	if err != nil {
		return err
	}
	if err := s.record(call, e, in); err != nil {
		e.refused(s, in.Count)
		return err
	}
	return nil
}

// refused makes the word right after a record that did not happen: the program has counted it
// already, and would wait for ever for a stream to reach it.
func (e *Event) refused(s *Streams, count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counted = max(e.counted, count)
	if e.reached == e.asked {
		e.tell(s, e.counted)
	}
}

// ask notes that a stream will reach a count.
func (e *Event) ask(count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.counted = count, max(e.counted, count)
}

// reach says in the word that a stream has reached a count, and with the last one, all that were
// refused since.
func (e *Event) reach(s *Streams, count uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = max(e.reached, count)
	count = e.reached
	if e.reached == e.asked {
		count = e.counted
	}
	e.tell(s, count)
}

// tell stores what the word says. The event's mu is held.
func (e *Event) tell(s *Streams, count uint64) {
	if e.word != noWord && !e.inGraph {
		s.Answers.Complete(e.word, count)
	}
}

// JoinGraph makes the program ask from now on, and not look at the word. It must come before the
// answer to the call that puts the event into an executable graph: the program may launch that and
// query the event at once.
func (e *Event) JoinGraph(s *Streams) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tell(s, wire.EventAsk)
	e.inGraph = true
}

// settled is the answer to a question about the event. When it has been reached, the word says so
// before the program hears of it, or its next query, which looks at the word alone, could go back
// on the answer: the stream writes the word a little later than the backend knows.
func (e *Event) settled(s *Streams, count uint64, err error) error {
	if err == nil {
		e.reach(s, count)
	}
	return err
}

func (s *Streams) record(call *core.Call, e *Event, in *wire.EventRecord) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.Context.Device != e.device {
		return &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "event and stream are on different GPUs"}
	}
	if st.Line.Capturing() {
		if e.Counter != nil {
			return NotInGraphs("record event")
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
	if err := s.Uncaptured(st, "record event"); err != nil {
		return err
	}
	if err := st.Enqueue(gpu.Record{Event: e.Work}); err != nil {
		return err
	}
	e.captured = graph.Mark{}
	e.Recorded = max(in.Count, e.Recorded+1)
	e.ask(e.Recorded)
	if e.Counter != nil {
		e.ours = e.Counter.Ask()
	}
	return st.Submit(gpu.Tell{Func: s.reached(e, e.Recorded)})
}

// reached is what a stream runs after it has recorded an event.
func (s *Streams) reached(e *Event, count uint64) func() {
	e.users.Add(1)
	context, ours := e.device.GPU, e.ours
	return func() {
		if err := context.Fault(); err != nil {
			s.Answers.Fail(gpu.Code(err)) // before the program believes the word
		}
		e.reach(s, count)
		if e.Counter != nil {
			e.Counter.Reach(ours)
		}
		e.drop(s)
	}
}

// known refuses questions about an event that was recorded into a capture, which they spoil.
func (e *Event) known(op string) error {
	if !e.captured.Captured() {
		return nil
	}
	e.captured.Invalidate()
	return &gpu.Error{Op: op, Code: abi.CapturedEvent, Detail: "it was last recorded in a captured stream"}
}

func (s *Streams) eventQuery(call *core.Call, in *wire.EventQuery) error {
	e, err := s.Event(in.Event)
	if err != nil {
		return err
	}
	if err := e.known("query event"); err != nil {
		return err
	}
	if err := s.Captures.Unsafe(call.Slot, call.Mode()); err != nil {
		return err
	}
	if e.Counter != nil {
		return e.queryShared()
	}
	return e.settled(s, e.Recorded, e.Work.Query())
}

func (s *Streams) eventSynchronize(call *core.Call, in *wire.EventSynchronize) error {
	e, err := s.Event(in.Event)
	if err != nil {
		return err
	}
	if err := e.known("synchronize event"); err != nil {
		return err
	}
	if err := s.Captures.Unsafe(call.Slot, call.Mode()); err != nil {
		return err
	}
	if e.Counter != nil {
		return s.synchronizeShared(call, e)
	}
	count := e.Recorded
	if err := e.Work.Query(); gpu.Code(err) != abi.NotReady {
		return e.settled(s, count, err)
	}
	e.users.Add(1)
	letGo := e.context.Hold(nil)
	return call.Beside(func() error {
		defer letGo()
		defer e.drop(s)
		return e.settled(s, count, e.Work.Synchronize())
	})
}

func (s *Streams) eventElapsedTime(_ *core.Call, in *wire.EventElapsedTime, out *wire.EventElapsedTimeReply) error {
	start, err := s.Event(in.HStart)
	if err != nil {
		return err
	}
	end, err := s.Event(in.HEnd)
	if err != nil {
		return err
	}
	if !start.timing || !end.timing || start.Recorded == 0 || end.Recorded == 0 || start.device != end.device {
		return &gpu.Error{
			Op:     "measure elapsed time",
			Code:   abi.InvalidHandle,
			Detail: "an event has no time, or was never recorded",
		}
	}
	for _, e := range []*Event{start, end} {
		if err := e.Work.Query(); err != nil {
			return err
		}
	}
	out.PMilliseconds, err = end.Work.ElapsedSince(start.Work)
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

func (e *Event) Save(k *core.Encoder) saved.State {
	shared := e.saveShared()
	moment, err := k.Resumable(e.device).Moment(e.Work)
	if err != nil {
		k.Fail(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return &saved.Event{
		Timing: e.timing, Moment: moment, Word: e.word, Recorded: e.Recorded,
		Counted: e.counted, Asked: e.asked, Reached: e.reached,
		InGraph: e.inGraph, Captured: e.captured.Captured(), Shared: shared,
	}
}

// restoreEvent makes an event that was recorded when it was. Its completion word is the program's, and
// says already what it should.
func (s *Streams) restoreEvent(r *core.Decoder, o *object.Object, in *saved.Event) (*Event, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	if in.Word != noWord && in.Word >= r.In.Words.Next {
		return nil, core.Damaged("completion word %d was never taken", in.Word)
	}
	work, err := c.Device.GPU.NewEvent(gpu.EventOptions{Timing: in.Timing, Moment: in.Moment})
	if err != nil {
		return nil, err
	}
	e := &Event{
		object: o, context: c, device: c.Device, Work: work, timing: in.Timing, word: in.Word, Recorded: in.Recorded,
		counted: in.Counted, asked: in.Asked, reached: in.Reached, inGraph: in.InGraph,
	}
	if in.Captured {
		e.captured = graph.PastCapture()
	}
	e.users.Store(1)
	return e, s.restoreShared(r, e, in.Shared)
}
