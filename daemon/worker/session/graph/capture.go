package graph

import (
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Mode is a CUstreamCaptureMode: which calls are refused during a capture.
type Mode uint32

// Modes of capture, and of a thread.
const (
	ModeGlobal      Mode = 0
	ModeThreadLocal Mode = 1
	ModeRelaxed     Mode = 2
)

// Status is a CUstreamCaptureStatus.
type Status uint32

// States of a stream.
const (
	StatusNone        Status = 0
	StatusActive      Status = 1
	StatusInvalidated Status = 2
)

// Captures holds the active captures of a session.
type Captures struct {
	active []*Capture
	lastID uint64
}

// Capture is one capture: the graph that it builds, and the streams that take part.
type Capture struct {
	ID    uint64
	graph *Graph
	mode  Mode
	// thread began the capture; another thread may end it in relaxed mode only.
	thread uint32
	origin *Line
	lines  []*Line
	// left are the last nodes of streams that were destroyed; they must be joined too.
	left    []*Node
	invalid bool
	ended   bool
}

// Line is the capture state of a stream. The zero value is a stream that is not captured. The
// session sets Context and Blocking.
type Line struct {
	Context abi.Handle
	// Blocking streams synchronize with the legacy default stream.
	Blocking bool
	// Legacy is the default stream itself, which cannot be captured.
	Legacy bool

	capture *Capture
	tip     []*Node // what the next node runs after
}

// Mark is the point of a capture at which an event was recorded. The zero value is none.
type Mark struct {
	capture *Capture
	tip     []*Node
}

// Captured reports whether the event was last recorded in a captured stream.
func (m Mark) Captured() bool { return m.capture != nil }

// illegal returns the error of a call that a capture forbids.
func illegal(code abi.Result, detail string) error {
	return &gpu.Error{Op: "stream capture", Code: code, Detail: detail}
}

// Active returns how many streams are captured.
func (c *Captures) Active() int {
	n := 0
	for _, capture := range c.active {
		n += len(capture.lines)
	}
	return n
}

// Begin starts a capture in a stream. Nodes go into g, the first ones after tip.
func (c *Captures) Begin(l *Line, g *Graph, tip []*Node, mode Mode, thread uint32) error {
	switch {
	case mode > ModeRelaxed:
		return refuse("begin stream capture", "unknown mode")
	case l.Legacy:
		return illegal(abi.StreamCaptureUnsupported, "the legacy default stream cannot be captured")
	case l.capture != nil:
		return illegal(abi.IllegalState, "the stream is already captured")
	}
	for i, n := range tip {
		if n.graph != g || slices.Contains(tip[:i], n) {
			return refuse("begin stream capture", "a dependency is in another graph or listed twice")
		}
	}
	c.lastID++
	capture := &Capture{ID: c.lastID, graph: g, mode: mode, thread: thread, origin: l}
	capture.join(l, tip)
	c.active = append(c.active, capture)
	return nil
}

// join makes a stream take part in the capture.
func (capture *Capture) join(l *Line, tip []*Node) {
	l.capture = capture
	l.tip = slices.Clone(tip)
	capture.lines = append(capture.lines, l)
}

// End finishes the capture that began in this stream and returns its graph. An error ends the
// capture too, and discard gets the unfinished graph. Only if the stream or the thread may not end
// the capture, it stays active.
func (c *Captures) End(l *Line, thread uint32, discard func(*Graph)) (*Graph, error) {
	capture := l.capture
	switch {
	case capture == nil:
		return nil, illegal(abi.IllegalState, "the stream is not captured")
	case capture.origin != l:
		capture.invalid = true
		return nil, illegal(abi.StreamCaptureUnmatched, "the capture began in another stream")
	case capture.mode != ModeRelaxed && capture.thread != thread:
		return nil, illegal(abi.StreamCaptureWrongThread, "the capture began in another thread")
	}
	unjoined := !capture.joined()
	c.finish(capture)
	switch {
	case capture.invalid:
		discard(capture.graph)
		return nil, illegal(abi.StreamCaptureInvalidated, "an earlier call made it invalid")
	case unjoined:
		discard(capture.graph)
		return nil, illegal(abi.StreamCaptureUnjoined, "another captured stream was not joined to the first one")
	}
	return capture.graph, nil
}

// Abandon removes a stream that is being destroyed from its capture. If the capture began in that
// stream it ends; otherwise it goes on with the stream's nodes. NCCL forks a stream for its
// dependencies alone, and destroys it.
func (c *Captures) Abandon(l *Line, discard func(*Graph)) {
	capture := l.capture
	switch {
	case capture == nil:
	case capture.origin == l:
		capture.invalid = true
		c.finish(capture)
		discard(capture.graph)
	default:
		capture.left = append(capture.left, l.tip...)
		capture.lines = slices.DeleteFunc(capture.lines, func(other *Line) bool { return other == l })
		l.capture, l.tip = nil, nil
	}
}

// finish ends a capture on all its streams.
func (c *Captures) finish(capture *Capture) {
	capture.ended = true
	for _, l := range capture.lines {
		l.capture, l.tip = nil, nil
	}
	c.active = slices.DeleteFunc(c.active, func(other *Capture) bool { return other == capture })
}

// joined reports whether all nodes captured in other streams precede the tip of the first stream.
// Nodes that the program adds itself need not: NCCL ends each of its streams with such a node.
func (capture *Capture) joined() bool {
	before := map[*Node]bool{}
	todo := slices.Clone(capture.origin.tip)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !before[n] {
			before[n] = true
			todo = append(todo, n.dependencies...)
		}
	}
	ends := slices.Clone(capture.left)
	for _, l := range capture.lines {
		ends = append(ends, l.tip...)
	}
	return !slices.ContainsFunc(ends, func(n *Node) bool {
		return n.captured && n.graph == capture.graph && !before[n]
	})
}

// Capturing reports whether the stream is captured.
func (l *Line) Capturing() bool { return l.capture != nil }

// Status returns the stream's capture status and graph. tip holds the dependencies of the next
// node.
func (l *Line) Status() (status Status, id uint64, g *Graph, tip []*Node) {
	switch {
	case l.capture == nil:
		return StatusNone, 0, nil, nil
	case l.capture.invalid:
		return StatusInvalidated, l.capture.ID, nil, nil
	}
	return StatusActive, l.capture.ID, l.capture.graph, l.tip
}

// Add captures an operation as the stream's next node.
func (l *Line) Add(op Op) (*Node, error) {
	if l.capture.invalid {
		return nil, illegal(abi.StreamCaptureInvalidated, "an earlier call made it invalid")
	}
	g := l.capture.graph
	l.tip = slices.DeleteFunc(l.tip, func(n *Node) bool { return n.graph != g }) // destroyed since
	n := g.addNode(op, l.tip)
	n.captured = true
	l.tip = append(l.tip[:0], n)
	return n, nil
}

// Mark returns the mark of an event that is recorded in the captured stream.
func (l *Line) Mark() (Mark, error) {
	if l.capture.invalid {
		return Mark{}, illegal(abi.StreamCaptureInvalidated, "an earlier call made it invalid")
	}
	return Mark{capture: l.capture, tip: slices.Clone(l.tip)}, nil
}

// Wait makes a stream wait for an event. Either the stream joins the event's capture, or the
// event's nodes become dependencies in the stream's capture. At least one of the two must be
// captured.
func (l *Line) Wait(m Mark) error {
	switch {
	case m.capture == nil:
		l.Invalidate()
		return illegal(abi.StreamCaptureIsolation, "a captured stream cannot wait for work that is not captured")
	case m.capture.ended:
		l.Invalidate()
		return illegal(abi.CapturedEvent, "the event was recorded in a capture that has ended")
	case m.capture.invalid || l.capture != nil && l.capture.invalid:
		l.Invalidate()
		return illegal(abi.StreamCaptureInvalidated, "an earlier call made it invalid")
	case l.Legacy:
		m.capture.invalid = true
		return illegal(abi.StreamCaptureImplicit, "the legacy default stream cannot join a capture")
	case l.capture == nil:
		m.capture.join(l, m.tip)
		return nil
	case l.capture != m.capture:
		l.capture.invalid, m.capture.invalid = true, true
		return illegal(abi.StreamCaptureMerge, "two captures cannot be merged")
	}
	for _, n := range m.tip {
		if !slices.Contains(l.tip, n) {
			l.tip = append(l.tip, n)
		}
	}
	return nil
}

// SetTip adds to or, if instead is set, replaces the dependencies of the stream's next node.
func (l *Line) SetTip(nodes []*Node, instead bool) error {
	switch {
	case l.capture == nil:
		return illegal(abi.IllegalState, "the stream is not captured")
	case l.capture.invalid:
		return illegal(abi.StreamCaptureInvalidated, "an earlier call made it invalid")
	}
	tip := slices.Clone(l.tip)
	if instead {
		tip = nil
	}
	for _, n := range nodes {
		if n.graph != l.capture.graph {
			return refuse("update capture dependencies", "a node is in another graph")
		}
		if !slices.Contains(tip, n) {
			tip = append(tip, n)
		}
	}
	l.tip = tip
	return nil
}

// Invalidate invalidates the stream's capture, after a call that is illegal during a capture.
func (l *Line) Invalidate() {
	if l.capture != nil {
		l.capture.invalid = true
	}
}

// Invalidate invalidates the capture in which the event was recorded.
func (m Mark) Invalidate() {
	if m.capture != nil {
		m.capture.invalid = true
	}
}

// Implicit is called before the legacy default stream of a context is used. That stream
// synchronizes with every blocking stream. So the use is illegal while one of them is captured, and
// invalidates those captures.
func (c *Captures) Implicit(context abi.Handle) error {
	return c.invalidate(abi.StreamCaptureImplicit, func(capture *Capture) bool {
		return slices.ContainsFunc(capture.lines, func(l *Line) bool { return l.Blocking && l.Context == context })
	})
}

// Synchronizing is called before a whole context is synchronized. It is illegal while a stream of
// the context is captured, because a captured stream never becomes idle.
func (c *Captures) Synchronizing(context abi.Handle) error {
	return c.invalidate(abi.StreamCaptureUnsupported, func(capture *Capture) bool {
		return slices.ContainsFunc(capture.lines, func(l *Line) bool { return l.Context == context })
	})
}

// Unsafe is called before a call that may affect more than its stream, such as an allocation.
// thread is the calling thread, mode its mode from cuThreadExchangeStreamCaptureMode.
func (c *Captures) Unsafe(thread uint32, mode Mode) error {
	if mode == ModeRelaxed {
		return nil
	}
	return c.invalidate(abi.StreamCaptureUnsupported, func(capture *Capture) bool {
		if capture.thread == thread {
			return capture.mode != ModeRelaxed
		}
		return mode == ModeGlobal && capture.mode == ModeGlobal
	})
}

// invalidate invalidates all captures concerned, and returns an error if there is one.
func (c *Captures) invalidate(code abi.Result, concerned func(*Capture) bool) error {
	var err error
	for _, capture := range c.active {
		if !concerned(capture) {
			continue
		}
		capture.invalid = true
		err = illegal(code, "the call is not allowed while a stream is captured")
	}
	return err
}
