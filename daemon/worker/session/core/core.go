package core

import (
	"log/slog"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/worker/session/exports"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Core is the state of a session that all topics share. Mu guards all of it but for what has a lock
// of its own.
type Core struct {
	Options Options
	Log     *slog.Logger
	Program Program
	Answers Answers
	Backlog backlog
	Exports exports.Exports
	// Topics are asked in their order to release and to restore objects.
	Topics []Topic

	// Mu is held by all handlers.
	Mu       sync.Mutex
	Objects  *object.Graph
	Captures graph.Captures
	Devices  []*Device
	// Contexts are found by the low half of the handle.
	Contexts map[uint32]*Context
	// Ending contexts are being destroyed: their handles are no longer valid.
	Ending map[*Context]struct{}
	// DiscardGraph drops the graph of a capture that failed.
	DiscardGraph func(g *graph.Graph)
	// Params holds bytes of calls that work keeps.
	Params slab
	Closed bool
	// Ended is closed when the session closes.
	Ended chan struct{}
	// capturing is what Answers.Capturing was told last.
	capturing int
}

// New returns the core of a session without objects, on the visible GPUs of the backend.
func New(options Options) (*Core, error) {
	s := &Core{
		Options: options, Log: options.Logger, Program: options.Program, Answers: options.Answers,
		Objects: object.NewGraph(), Contexts: map[uint32]*Context{}, Ending: map[*Context]struct{}{},
		Ended: make(chan struct{}),
	}
	s.Exports.Dir = options.Sharing
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.Backlog.tell = options.Answers.Full
	infos := view.Devices(options.Backend.Devices(), options.Visible)
	if len(infos) == 0 {
		return nil, &gpu.Error{Op: "open session", Code: abi.NoDevice, Detail: "the backend has no GPU"}
	}
	for ordinal, info := range infos {
		s.Devices = append(s.Devices, &Device{
			Ordinal: ordinal, Machine: view.Ordinal(options.Visible, ordinal), Info: info, Window: gpu.WindowOf(infos, ordinal),
		})
	}
	return s, nil
}

// Destroy destroys an object and what it owns, and frees what these held.
func (s *Core) Destroy(o *object.Object) { s.Objects.Destroy(o, s.release) }

func (s *Core) release(o *object.Object) {
	for _, t := range s.Topics {
		t.Release(o)
	}
}

// FailLater reports an error of work that no call waits for.
func (s *Core) FailLater(err error) {
	if code := gpu.Code(err); code != abi.Success {
		s.Log.Warn("asynchronous call failed", "error", err)
		s.Answers.Fail(code)
	}
}

// Capturing reports whether a stream is being captured, as the program was told.
func (s *Core) Capturing() bool { return s.capturing > 0 }

// ReportCapturing keeps the program's count of captured streams right.
func (s *Core) ReportCapturing() {
	if n := s.Captures.Active(); n != s.capturing {
		s.capturing = n
		s.Answers.Capturing(n)
	}
}

// Invalid is an argument that the driver would refuse.
func Invalid(op, detail string) error {
	return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: detail}
}

// Find returns what a handle stands for.
func Find[T any](s *Core, kind abi.Kind, h abi.Handle) (state T, err error) {
	o, err := s.Objects.Find(kind, h)
	if err != nil {
		return state, err
	}
	return o.State.(T), nil
}
