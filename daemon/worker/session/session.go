package session

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Options are what a session is made of.
type Options struct {
	Backend gpu.Backend
	// Program reads and writes the memory of the program.
	Program Program
	Arena   Arena
	Answers Answers
	// Backing puts what a restored session has in memory behind its addresses; nil for a backend's
	// plain memory.
	Backing func(ordinal int, memory gpu.Memory) heap.Backing
	// Share maps memory of the program in this process, where it is shared with a file; nil where
	// there is no way.
	Share func(r gpu.Range) (Shared, error)
	// Patience is how long a restored session waits for others whose memory it has; 0 for a minute.
	Patience time.Duration
	// Getenv reads the program's environment, for rank and world size; nil for none.
	Getenv func(name string) string
	Logger *slog.Logger
}

// Program is the program's memory.
type Program interface {
	// Memory returns the program's memory as it is reached while the thread of a reply slot waits.
	// NoThread stands for work that no thread waits for; it fails where copying takes the program's
	// help.
	Memory(slot uint32) gpu.HostMemory
}

// NoThread is the slot of calls that nobody waits for.
const NoThread = ^uint32(0)

// Arena is the pinned memory that program and worker share at one address.
type Arena interface {
	heap.Store
	// Address is where both have it.
	Address() uint64
	// Bytes is all of it; pages that are not reserved must not be touched.
	Bytes() []byte
}

// Answers is the way back to the program.
type Answers interface {
	// Reply completes a waiting call.
	Reply(slot uint32, sequence uint64, code abi.Result, data []byte)
	// Fail stores the error of a call that nobody waits for; a sticky one is returned by every later
	// call.
	Fail(code abi.Result)
	// Capturing says how many streams are being captured.
	Capturing(streams int)
	// Full asks the program to post no more work for now, or to go on.
	Full(full bool)
	// Complete stores an event's record count in its completion word.
	Complete(word uint32, count uint64)
	// Callback asks the program to run a function; abi.NotReady when the ring is full.
	Callback(callback wire.Callback) error
	// Print passes on what kernels print.
	Print(text []byte)
}

// Session is everything a program has on its GPUs.
type Session struct {
	options   Options
	log       *slog.Logger
	program   Program
	answers   Answers
	arena     *heap.Arena
	callbacks callbacks
	backlog   backlog
	shown     shown
	shares    shares
	leisure   leisure
	made      atomic.Uint64
	completed atomic.Uint64

	mu        sync.Mutex
	objects   *object.Graph
	graphs    *graph.Set
	captures  graph.Captures
	capturing int // what Answers.Capturing was told last
	devices   []*device
	primaries []primary
	pools     []devicePools
	loads     []*loads
	loader    Loader
	unloading func(m *module)
	discard   func(g *graph.Graph)
	live      map[*device][]gpu.Range
	reloaded  map[abi.Handle]*module
	children  map[abi.Handle]*graph.Graph
	absent    []*event
	virtual   *virtual.Space
	imports   []*imported
	placed    placements
	contexts  map[uint32]*context // by the low half of the handle
	ending    map[*context]struct{}
	words     words
	params    keeper
	scratch   []byte
	recent    recent
	pending   map[uint64]*pendingCall // calls that wait, by sequence
	traced    *traced                 // nil: nobody wants to know
	closed    bool
	ended     chan struct{} // closed when the session closes
}

// New makes the session of a program that has just started.
func New(options Options) (*Session, error) {
	s, err := newSession(options)
	if err != nil {
		return nil, err
	}
	for _, d := range s.devices {
		s.addDefaultPool(d)
	}
	return s, nil
}

// newSession makes a session without any objects.
func newSession(options Options) (*Session, error) {
	s := &Session{
		options: options, log: options.Logger, program: options.Program, answers: options.Answers,
		objects: object.NewGraph(), contexts: map[uint32]*context{}, ending: map[*context]struct{}{}, ended: make(chan struct{}), pending: map[uint64]*pendingCall{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.callbacks.session = s
	s.backlog.tell = options.Answers.Full
	s.graphs = graph.NewSet(func() abi.Handle { return s.objects.NextHandle(abi.KindGraphNode) })
	s.arena = heap.NewArena(
		gpu.Range{Address: options.Arena.Address(), Bytes: uint64(len(options.Arena.Bytes()))},
		options.Arena,
	)
	infos := options.Backend.Devices()
	if len(infos) == 0 {
		return nil, &gpu.Error{Op: "open session", Code: abi.NoDevice, Detail: "the backend has no GPU"}
	}
	for ordinal, info := range infos {
		s.devices = append(s.devices, &device{ordinal: ordinal, info: info, window: gpu.WindowOf(infos, ordinal)})
	}
	s.primaries, s.pools, s.loads = make([]primary, len(infos)), make([]devicePools, len(infos)), make([]*loads, len(infos))
	s.loader, s.unloading, s.discard = s, s.forsake, s.discardGraph
	s.newSpace()
	return s, nil
}

// newSpace gives the program its part of each device's window, to reserve addresses there, but for
// the last part of that.
func (s *Session) newSpace() {
	var forProgram, forGuests []gpu.Range
	for _, d := range s.devices {
		_, upper := gpu.Split(d.window)
		guests := upper.Bytes / 16 &^ (gpu.ChunkBytes - 1)
		upper.Bytes -= guests
		forProgram = append(forProgram, upper)
		forGuests = append(forGuests, gpu.Range{Address: upper.End(), Bytes: guests})
	}
	s.virtual = virtual.New(forProgram, forGuests)
}

// Close ends everything, waiting for nothing longer than a kernel takes to be cancelled.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.ended)
	s.callbacks.close()
	s.shares.close()
	var first error
	for _, handle := range slices.Sorted(maps.Keys(s.contexts)) {
		if c := s.contexts[handle]; c != nil {
			s.objects.Destroy(c.object, func(*object.Object) {})
		}
	}
	clear(s.contexts)
	for _, d := range s.devices {
		if d.context != nil {
			d.opened.Store(nil)
			if err := d.context.Close(); err != nil && first == nil {
				first = fmt.Errorf("close GPU %d: %w", d.ordinal, err)
			}
			d.context = nil
		}
	}
	for _, g := range s.shown.registered {
		_ = g.shared.Close()
	}
	clear(s.shown.registered)
	return first
}

// failLater reports an error of work that no call waits for.
func (s *Session) failLater(err error) {
	if code := gpu.Code(err); code != abi.Success {
		s.log.Warn("asynchronous call failed", "error", err)
		s.answers.Fail(code)
	}
}

// tellCapturing keeps the program's count of captured streams right.
func (s *Session) tellCapturing() {
	if n := s.captures.Active(); n != s.capturing {
		s.capturing = n
		s.answers.Capturing(n)
	}
}

// invalid is an argument that the driver would refuse.
func invalid(op, detail string) error {
	return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: detail}
}

// keeper copies small byte slices into large blocks, which costs a fraction of an allocation each.
type keeper struct{ room []byte }

const keeperBytes = 64 << 10

func (k *keeper) keep(b []byte) []byte {
	if len(b) > len(k.room) {
		if len(b) > keeperBytes/4 {
			return slices.Clone(b)
		}
		k.room = make([]byte, keeperBytes)
	}
	n := copy(k.room, b)
	kept := k.room[:n:n]
	k.room = k.room[(n+7)&^7:]
	return kept
}

// find returns what a handle stands for.
func find[T any](s *Session, kind abi.Kind, h abi.Handle) (state T, err error) {
	o, err := s.objects.Find(kind, h)
	if err != nil {
		return state, err
	}
	return o.State.(T), nil
}
