package session

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

const tripleText = `
.visible .global .attribute(.managed) .align 4 .u32 both = 5;
.visible .global .align 8 .u64 table[3] = {1, 2, 3};
.visible .entry triple(.param .u64 data, .param .u32 count)
{
	.reg .b32 %r<8>; .reg .b64 %rd<4>;
	ld.param.u64 %rd0, [data];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd1, %r1, 4;
	add.s64 %rd2, %rd0, %rd1;
	ld.global.u32 %r5, [%rd2];
	mul.lo.u32 %r5, %r5, 3;
	st.global.u32 [%rd2], %r5;
	atom.global.add.u32 %r6, [both], 1;
	mov.u64 %rd3, %gridid;
	st.global.u64 [table], %rd3;
	ret;
}`

// sent is a call as it goes to each twin.
type sent struct {
	number  abi.Call
	payload []byte
	slot    uint32
	mode    graph.Mode
	context abi.Handle
}

// got is all that a program sees of a call.
type got struct {
	code      abi.Result
	data      []byte
	failures  []abi.Result
	callbacks []wire.Callback
}

// make sends a call and waits until all it does is done, so that twins can be compared.
func (p *program) make(c sent) got {
	p.t.Helper()
	p.mu.Lock()
	p.failures = nil
	p.sequence++
	call := &Call{
		Number: c.number, Slot: c.slot, Sequence: p.sequence, Context: uint32(c.context), Payload: slices.Clone(c.payload),
		Flags: uint16(c.mode) << wire.FlagModeShift,
	}
	var reply chan answer
	if c.number.Class() != abi.ClassAsync {
		call.Flags |= wire.FlagWait
		reply = make(chan answer, 1)
		p.replies[p.sequence] = reply
	}
	p.mu.Unlock()
	var out got
	p.callback = func(callback wire.Callback) {
		p.mu.Lock()
		out.callbacks = append(out.callbacks, callback)
		p.mu.Unlock()
		p.session.streams.FinishCallback(callback.ID)
	}
	p.session.Dispatch(call)
	if reply != nil {
		select {
		case a := <-reply:
			out.code, out.data = a.code, a.data
		case <-time.After(mostWait):
			p.t.Fatalf("no reply to %v", c.number)
		}
	}
	p.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	out.failures = p.failures
	slices.SortFunc(out.callbacks, func(a, b wire.Callback) int { return cmp.Compare(a.UserData, b.UserData) })
	for i := range out.callbacks {
		if out.callbacks[i].Kind == wire.CallbackDestroy {
			out.callbacks[i].ID = 0
		}
	}
	return out
}

// settle waits as Quiet does, during captures too.
func (p *program) settle() {
	p.t.Helper()
	s := p.session
	p.eventually("the session is at rest", func() bool {
		s.core.Mu.Lock()
		defer s.core.Mu.Unlock()
		return s.busy() == nil
	})
}

// alike compares everything that twins can see of their sessions.
func alike(t testing.TB, p, q *program) {
	t.Helper()
	if !bytes.Equal(p.memory, q.memory) {
		t.Fatal("the programs' memory differs")
	}
	if !bytes.Equal(p.arena, q.arena) {
		t.Fatal("the arenas differ")
	}
	if p.capturing != q.capturing {
		t.Fatalf("%d streams are captured, and %d", p.capturing, q.capturing)
	}
	if a, b := fmt.Sprint(p.words), fmt.Sprint(q.words); a != b {
		t.Fatalf("completion words differ:\n%s\n%s", a, b)
	}
	if a, b := p.session.fault(), q.session.fault(); a != b {
		t.Fatalf("faults differ: %q, %q", a, b)
	}
	if a, b := fmt.Sprint(p.session.Counts()), fmt.Sprint(q.session.Counts()); a != b {
		t.Fatalf("objects differ: %s, %s", a, b)
	}
	if a, b := fmt.Sprint(p.session.ArenaRanges()), fmt.Sprint(q.session.ArenaRanges()); a != b {
		t.Fatalf("pinned memory differs: %s, %s", a, b)
	}
	a, b := p.session.Memories(), q.session.Memories()
	if len(a) != len(b) {
		t.Fatalf("%d and %d GPUs are open", len(a), len(b))
	}
	for i := range a {
		if !slices.Equal(a[i].Mapped, b[i].Mapped) {
			t.Fatalf("GPU %d has memory at %v, and %v", a[i].Ordinal, a[i].Mapped, b[i].Mapped)
		}
		for _, r := range a[i].Mapped {
			if at, same := differ(t, r, a[i].Memory, b[i].Memory); !same {
				t.Fatalf("memory differs at %#x", at)
			}
		}
	}
}

func differ(t testing.TB, r gpu.Range, a, b gpu.Memory) (at uint64, same bool) {
	t.Helper()
	x, y := make([]byte, r.Bytes), make([]byte, r.Bytes)
	if _, err := a.ReadAt(x, int64(r.Address)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ReadAt(y, int64(r.Address)); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(x, y) {
		return 0, true
	}
	for i := range x {
		if x[i] != y[i] {
			return r.Address + uint64(i), false
		}
	}
	return 0, true
}

// both sends a call to every twin and compares what they see of it.
func both(t testing.TB, c sent, twins ...*program) got {
	t.Helper()
	first := twins[0].make(c)
	for _, q := range twins[1:] {
		other := q.make(c)
		data := other.data
		if c.number == abi.CallEventElapsedTime {
			data = first.data // of events recorded since they parted, times differ
		}
		if first.code != other.code || !bytes.Equal(first.data, data) ||
			!slices.Equal(first.failures, other.failures) || !slices.Equal(first.callbacks, other.callbacks) {
			t.Fatalf(
				"%v: %v %x, errors %v, callbacks %v;\nthe restored one: %v %x, %v, %v",
				c.number,
				first.code,
				first.data,
				first.failures,
				first.callbacks,
				other.code,
				other.data,
				other.failures,
				other.callbacks,
			)
		}
		if !bytes.Equal(twins[0].memory, q.memory) {
			t.Fatalf("%v wrote different things", c.number)
		}
	}
	return first
}

// next makes up a call of any kind, with its text where it loads code.
func (c *caller) next(t testing.TB, twins ...*program) sent {
	t.Helper()
	s := sent{number: c.call(), slot: uint32(c.IntN(3)), mode: graph.Mode(c.IntN(3)), context: twins[0].context}
	if c.IntN(8) == 0 {
		s.context = abi.Handle(c.handle(abi.KindContext))
	}
	if s.number == abi.CallModuleLoad || s.number == abi.CallLinkCheck {
		text, library := []string{doubleText, tripleText}[c.IntN(2)], c.IntN(2) == 0
		var in *wire.ModuleLoad
		for _, p := range twins {
			in = p.image(text, library)
		}
		s.payload = in.Append(nil)
		if s.number == abi.CallLinkCheck {
			s.payload = (&wire.LinkCheck{Address: in.Address, Size: in.Size}).Append(nil)
		}
		return s
	}
	s.payload = c.payload(s.number)
	return s
}

// steps makes calls at random and learns from the answers.
func (c *caller) steps(t testing.TB, n int, seen map[abi.Call]int, twins ...*program) {
	t.Helper()
	for range n {
		s := c.next(t, twins...)
		p := twins[0]
		clear(p.memory[answersAt : answersAt+2048])
		for _, q := range twins[1:] {
			clear(q.memory[answersAt : answersAt+2048])
		}
		g := both(t, s, twins...)
		if g.code == abi.Success && len(g.failures) == 0 {
			seen[s.number]++
			c.learn(g.data)
			c.made(s.number, g.data)
			if answersInMemory[s.number] {
				c.learn(p.memory[answersAt : answersAt+512])
			}
		}
	}
}

// endCaptures ends every capture that is going on, after having seen that a session cannot be saved
// until then.
func (c *caller) endCaptures(t testing.TB, p *program) {
	t.Helper()
	if !p.session.Capturing() {
		return
	}
	if err := p.session.Quiet(t.Context()); !errors.Is(err, ErrCapturing) {
		t.Fatalf("quiet in a capture: %v", err)
	}
	if _, err := p.session.Save(); !errors.Is(err, ErrCapturing) {
		t.Fatalf("saved in a capture: %v", err)
	}
	p.session.core.Mu.Lock()
	contexts := slices.Collect(maps.Values(p.session.core.Contexts))
	p.session.core.Mu.Unlock()
	for _, h := range append(slices.Clone(c.handles[abi.KindStream]), 2) {
		for slot := range uint32(3) {
			for _, x := range contexts {
				p.make(
					sent{
						number:  abi.CallStreamEndCapture,
						payload: (&wire.StreamEndCapture{HStream: abi.Handle(h)}).Append(nil),
						slot:    slot,
						context: x.Object.Handle(),
					},
				)
			}
		}
	}
	if p.session.Capturing() {
		t.Fatal("a capture could not be ended")
	}
}

// times compares the times between all events that the program has.
func (c *caller) times(t testing.TB, p, q *program) (compared int) {
	t.Helper()
	events := c.handles[abi.KindEvent]
	for range 30 {
		if len(events) == 0 {
			return compared
		}
		in := wire.EventElapsedTime{
			HStart: abi.Handle(events[c.IntN(len(events))]),
			HEnd:   abi.Handle(events[c.IntN(len(events))]),
		}
		s := sent{number: abi.CallEventElapsedTime, payload: in.Append(nil), context: p.context}
		a, b := p.make(s), q.make(s)
		if a.code != b.code || !bytes.Equal(a.data, b.data) {
			t.Fatalf(
				"time between %v and %v: %v %x, restored: %v %x",
				in.HStart,
				in.HEnd,
				a.code,
				a.data,
				b.code,
				b.data,
			)
		}
		if a.code == abi.Success {
			compared++
		}
	}
	return compared
}

// apart says of a call that twins cannot make it: it answers with random numbers, or waits for what
// another program may never store. Programs of their own in tests/workloads make these.
func apart(number abi.Call) bool {
	name := number.String()
	return strings.HasPrefix(name, "ipc") || strings.Contains(name, "MemOps") || number == abi.CallVmmExport ||
		number == abi.CallVmmImport
}

// TestTwins makes calls at random in one session, saves it and makes it again elsewhere, and goes
// on with the same calls in both: whatever they answer, write or break must be the same. Every call
// of the session takes part that can.
func TestTwins(t *testing.T) {
	for _, number := range abi.Calls() {
		if _, known := messages[number]; !known && !apart(number) {
			t.Errorf("%v does not take part", number)
		}
	}
	cases, steps := 60, 200
	switch {
	case full() || rounds.All():
		cases = 400
	case testing.Short():
		cases = 30
	}
	seen := map[abi.Call]int{}
	timed := 0
	for seed := range uint64(cases) {
		spec := "soft:2,deterministic,memory=64MiB"
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := softProgram(t, spec, 1<<19)
			c := newCaller(seed)
			for i := range p.memory[dataAt : dataAt+8192] {
				p.memory[dataAt+i] = byte(i * 7)
			}
			var started wire.DevicePrimaryCtxRetainReply
			p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{Dev: 0}, &started)
			c.handles[abi.KindContext] = append(c.handles[abi.KindContext], uint64(started.Pctx))
			c.steps(t, steps, seen, p)
			c.endCaptures(t, p)
			q := p.twin(spec, seed%2 == 1)
			alike(t, p, q)
			timed += c.times(t, p, q)
			c.steps(t, steps, seen, p, q)
			alike(t, p, q)
		})
		if !ok {
			break
		}
	}
	if !full() && !rounds.All() {
		return // some calls succeed only in few of the cases
	}
	for number := range messages {
		if seen[number] == 0 && number != abi.CallCtxEnablePeerAccess && number != abi.CallCtxDisablePeerAccess &&
			number != abi.CallCallbackDone {
			t.Errorf("%v never succeeded", number)
		}
	}
	if timed == 0 {
		t.Error("no times were compared")
	}
}
