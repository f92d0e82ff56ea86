package graph

import (
	"errors"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// bench is a graph set with a few streams of one context.
type bench struct {
	t        *testing.T
	set      *Set
	captures Captures
	a, b, c  Line
	legacy   Line
	graphs   uint32
	dropped  int
}

var context = abi.NewHandle(abi.KindContext, 1)

func newBench(t *testing.T) *bench {
	var nodes uint32
	next := func() abi.Handle { nodes++; return abi.NewHandle(abi.KindGraphNode, nodes) }
	line := Line{Context: context, Blocking: true}
	return &bench{t: t, set: NewSet(next), a: line, b: line, c: line, legacy: Line{Context: context, Legacy: true}}
}

func (b *bench) graph() *Graph {
	b.graphs++
	return b.set.NewGraph(abi.NewHandle(abi.KindGraph, b.graphs))
}

func (b *bench) begin(l *Line, mode Mode, thread uint32) {
	b.t.Helper()
	b.want(b.captures.Begin(l, b.graph(), nil, mode, thread), nil)
}

func (b *bench) end(l *Line, thread uint32) (*Graph, error) {
	return b.captures.End(l, thread, func(*Graph) { b.dropped++ })
}

func (b *bench) want(err error, code error) {
	b.t.Helper()
	if code == nil && err != nil || code != nil && !errors.Is(err, code) {
		b.t.Errorf("got %v, want %v", err, code)
	}
}

func (b *bench) add(l *Line) *Node {
	b.t.Helper()
	n, err := l.Add(Empty{})
	b.want(err, nil)
	return n
}

func (b *bench) mark(l *Line) Mark {
	b.t.Helper()
	m, err := l.Mark()
	b.want(err, nil)
	return m
}

func TestCaptureChain(t *testing.T) {
	b := newBench(t)
	b.begin(&b.a, ModeGlobal, 1)
	first, second := b.add(&b.a), b.add(&b.a)
	status, id, g, tip := b.a.Status()
	if status != StatusActive || id != 1 || g == nil || !slices.Equal(tip, []*Node{second}) {
		t.Errorf("status %v, id %v, tip %v", status, id, tip)
	}
	got, err := b.end(&b.a, 1)
	b.want(err, nil)
	if got != g || len(got.Nodes()) != 2 || !slices.Equal(second.Dependencies(), []*Node{first}) {
		t.Errorf("graph %v", got.Nodes())
	}
	if b.a.Capturing() || b.captures.Active() != 0 {
		t.Error("still captured after the end")
	}
}

func TestCaptureForkAndJoin(t *testing.T) {
	b := newBench(t)
	b.begin(&b.a, ModeGlobal, 1)
	root := b.add(&b.a)
	b.want(b.b.Wait(b.mark(&b.a)), nil)
	if b.captures.Active() != 2 {
		t.Errorf("%d streams captured", b.captures.Active())
	}
	left, right := b.add(&b.a), b.add(&b.b)
	b.want(b.a.Wait(b.mark(&b.b)), nil)
	last := b.add(&b.a)
	g, err := b.end(&b.a, 1)
	b.want(err, nil)
	if !slices.Equal(last.Dependencies(), []*Node{left, right}) || !slices.Equal(right.Dependencies(), []*Node{root}) {
		t.Error("wrong edges after fork and join")
	}
	if b.b.Capturing() {
		t.Error("the forked stream is still captured")
	}
	plan, err := g.Plan()
	b.want(err, nil)
	if len(plan.Steps) != 4 {
		t.Errorf("%d steps", len(plan.Steps))
	}
}

// captureRules are the rules in the driver's documentation: which calls are illegal, and what they
// do to the capture.
var captureRules = []struct {
	name string
	do   func(b *bench) error // stream a is captured by thread 1 in global mode
	want error
	end  error // the error of ending the capture afterwards
}{
	{
		"begin twice",
		func(b *bench) error { return b.captures.Begin(&b.a, b.graph(), nil, ModeGlobal, 1) },
		abi.IllegalState,
		nil,
	},
	{
		"begin in the legacy stream",
		func(b *bench) error { return b.captures.Begin(&b.legacy, b.graph(), nil, ModeGlobal, 1) },
		abi.StreamCaptureUnsupported,
		nil,
	},
	{
		"begin in an unknown mode",
		func(b *bench) error { return b.captures.Begin(&b.b, b.graph(), nil, 3, 1) },
		abi.InvalidValue,
		nil,
	},
	{
		"use the legacy stream",
		func(b *bench) error { return b.captures.Implicit(context) },
		abi.StreamCaptureImplicit,
		abi.StreamCaptureInvalidated,
	},
	{"legacy stream of another context", func(b *bench) error { return b.captures.Implicit(context + 1) }, nil, nil},
	{
		"synchronize the context",
		func(b *bench) error { return b.captures.Synchronizing(context) },
		abi.StreamCaptureUnsupported,
		abi.StreamCaptureInvalidated,
	},
	{
		"unsafe call, same thread",
		func(b *bench) error { return b.captures.Unsafe(1, ModeGlobal) },
		abi.StreamCaptureUnsupported,
		abi.StreamCaptureInvalidated,
	},
	{
		"unsafe call, same thread, thread-local",
		func(b *bench) error { return b.captures.Unsafe(1, ModeThreadLocal) },
		abi.StreamCaptureUnsupported,
		abi.StreamCaptureInvalidated,
	},
	{"unsafe call, same thread, relaxed", func(b *bench) error { return b.captures.Unsafe(1, ModeRelaxed) }, nil, nil},
	{
		"unsafe call, other thread",
		func(b *bench) error { return b.captures.Unsafe(2, ModeGlobal) },
		abi.StreamCaptureUnsupported,
		abi.StreamCaptureInvalidated,
	},
	{
		"unsafe call, other thread, thread-local",
		func(b *bench) error { return b.captures.Unsafe(2, ModeThreadLocal) },
		nil,
		nil,
	},
	{
		"end in the wrong thread",
		func(b *bench) error { _, err := b.end(&b.a, 2); return err },
		abi.StreamCaptureWrongThread,
		nil,
	},
	{
		"end a stream that is not captured",
		func(b *bench) error { _, err := b.end(&b.b, 1); return err },
		abi.IllegalState,
		nil,
	},
	{"end in a forked stream", func(b *bench) error {
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		_, err := b.end(&b.b, 1)
		return err
	}, abi.StreamCaptureUnmatched, abi.StreamCaptureInvalidated},
	{
		"wait for an event outside",
		func(b *bench) error { return b.a.Wait(Mark{}) },
		abi.StreamCaptureIsolation,
		abi.StreamCaptureInvalidated,
	},
	{
		"legacy stream waits",
		func(b *bench) error { return b.legacy.Wait(b.mark(&b.a)) },
		abi.StreamCaptureImplicit,
		abi.StreamCaptureInvalidated,
	},
	{"merge two captures", func(b *bench) error {
		b.begin(&b.b, ModeGlobal, 1)
		return b.a.Wait(b.mark(&b.b))
	}, abi.StreamCaptureMerge, abi.StreamCaptureInvalidated},
	{"leave a fork unjoined", func(b *bench) error {
		b.add(&b.a)
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		b.add(&b.b)
		return nil
	}, nil, abi.StreamCaptureUnjoined},
	{"fork without work", func(b *bench) error {
		b.add(&b.a)
		return b.b.Wait(b.mark(&b.a))
	}, nil, nil},
	{"add after an illegal call", func(b *bench) error {
		_ = b.captures.Implicit(context)
		_, err := b.a.Add(Empty{})
		return err
	}, abi.StreamCaptureInvalidated, abi.StreamCaptureInvalidated},
	{"dependency of another graph", func(b *bench) error {
		n, _ := b.graph().Add(Empty{}, nil)
		return b.a.SetTip([]*Node{n}, true)
	}, abi.InvalidValue, nil},
	{"destroy a forked stream", func(b *bench) error {
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		b.captures.Abandon(&b.b, func(*Graph) {})
		return nil
	}, nil, nil},
	{"destroy a joined stream", func(b *bench) error {
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		b.add(&b.b)
		b.want(b.a.Wait(b.mark(&b.b)), nil)
		b.captures.Abandon(&b.b, func(*Graph) {})
		return nil
	}, nil, nil},
	{"end a fork with a node of one's own", func(b *bench) error {
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		b.add(&b.b)
		b.want(b.a.Wait(b.mark(&b.b)), nil)
		_, _, g, tip := b.b.Status()
		own, err := g.Add(Empty{}, tip)
		b.want(err, nil)
		return b.b.SetTip([]*Node{own}, true)
	}, nil, nil},
	{"destroy an unjoined stream", func(b *bench) error {
		b.want(b.b.Wait(b.mark(&b.a)), nil)
		b.add(&b.b)
		b.captures.Abandon(&b.b, func(*Graph) {})
		return nil
	}, nil, abi.StreamCaptureUnjoined},
	{
		"destroy the first stream",
		func(b *bench) error { b.captures.Abandon(&b.a, func(*Graph) {}); return nil },
		nil,
		abi.IllegalState,
	},
}

func TestCaptureRules(t *testing.T) {
	for _, c := range captureRules {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.begin(&b.a, ModeGlobal, 1)
			b.want(c.do(b), c.want)
			_, err := b.end(&b.a, 1)
			b.want(err, c.end)
			if b.a.Capturing() {
				t.Error("still captured after the end")
			}
			if c.end != nil && !errors.Is(c.end, abi.IllegalState) && b.dropped != 1 {
				t.Errorf("%d graphs discarded", b.dropped)
			}
		})
	}
}

func TestCaptureModesOfOthers(t *testing.T) {
	for _, c := range []struct {
		mode, thread Mode
		same, other  error
	}{
		{ModeThreadLocal, ModeGlobal, abi.StreamCaptureUnsupported, nil},
		{ModeRelaxed, ModeGlobal, nil, nil},
		{ModeGlobal, ModeGlobal, abi.StreamCaptureUnsupported, abi.StreamCaptureUnsupported},
	} {
		b := newBench(t)
		b.begin(&b.a, c.mode, 1)
		b.want(b.captures.Unsafe(2, c.thread), c.other)
		b.want(b.captures.Unsafe(1, c.thread), c.same)
	}
	b := newBench(t)
	b.begin(&b.a, ModeRelaxed, 1)
	_, err := b.end(&b.a, 2)
	b.want(err, nil)
}

func TestEventOfAnEndedCapture(t *testing.T) {
	b := newBench(t)
	b.begin(&b.a, ModeGlobal, 1)
	m := b.mark(&b.a)
	_, err := b.end(&b.a, 1)
	b.want(err, nil)
	b.want(b.b.Wait(m), abi.CapturedEvent)
	if b.b.Capturing() {
		t.Error("joined a capture that has ended")
	}
}

func TestCaptureToGraphAndSetTip(t *testing.T) {
	b := newBench(t)
	g := b.graph()
	first, _ := g.Add(Empty{}, nil)
	b.want(b.captures.Begin(&b.a, g, []*Node{first}, ModeGlobal, 1), nil)
	second := b.add(&b.a)
	b.want(b.a.SetTip([]*Node{first}, false), nil)
	third := b.add(&b.a)
	b.want(b.a.SetTip(nil, true), nil)
	fourth := b.add(&b.a)
	b.want(b.a.SetTip([]*Node{third, fourth}, true), nil)
	b.add(&b.a)
	got, err := b.end(&b.a, 1)
	b.want(err, nil)
	if got != g || !slices.Equal(second.Dependencies(), []*Node{first}) ||
		!slices.Equal(third.Dependencies(), []*Node{second, first}) || len(fourth.Dependencies()) != 0 {
		t.Error("wrong edges after SetTip")
	}
}
