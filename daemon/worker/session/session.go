package session

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/worker/session/code"
	"github.com/phos-gpu/phos/daemon/worker/session/contexts"
	"github.com/phos-gpu/phos/daemon/worker/session/copies"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graphs"
	"github.com/phos-gpu/phos/daemon/worker/session/memory"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
	"github.com/phos-gpu/phos/daemon/worker/session/streams"
)

// What callers of a session need of package core.
type (
	// Options are what a session is made of.
	Options = core.Options
	// Program is the program's memory.
	Program = core.Program
	// Arena is the pinned memory that program and worker share at one address.
	Arena = core.Arena
	// Answers is the way back to the program.
	Answers = core.Answers
	// Shared is memory of the program that this process has too: the pages of a file.
	Shared = core.Shared
	// Call is one frame on its way through the session.
	Call = core.Call
)

// NoThread is the slot of calls that no thread waits for.
const NoThread = core.NoThread

// Session is everything a program has on its GPUs.
type Session struct {
	core      *core.Core
	reclaim   *reclaim.Reclaimer
	streams   *streams.Streams
	memory    *memory.Memory
	copies    *copies.Copies
	contexts  *contexts.Contexts
	code      *code.Code
	graphs    *graphs.Graphs
	topics    [topicCount]core.Topic // by the numbers of zz_topics.go
	made      atomic.Uint64
	awaited   atomic.Uint64
	completed atomic.Uint64

	// The session's lock, core.Core.Mu, guards what follows.
	pending map[uint64]*pendingCall // calls that wait, by sequence
	traced  *traced                 // nil: calls are not traced
}

// New makes the session of a program that has just started.
func New(options Options) (*Session, error) {
	s, err := newSession(options)
	if err != nil {
		return nil, err
	}
	s.memory.AddDefaultPools()
	return s, nil
}

// newSession makes a session without any objects.
func newSession(options Options) (*Session, error) {
	c, err := core.New(options)
	if err != nil {
		return nil, err
	}
	s := &Session{core: c, pending: map[uint64]*pendingCall{}}
	s.reclaim = reclaim.New(c)
	s.streams = streams.New(c)
	s.memory = memory.New(c, s.reclaim)
	s.copies = copies.New(c, s.memory)
	s.contexts = contexts.New(c, s.memory, s.reclaim)
	s.code = code.New(c, s.memory, s.reclaim)
	s.graphs = graphs.New(c, s.reclaim, s.streams, s.copies, s.code)
	s.memory.Loader = s.code
	s.topics = [topicCount]core.Topic{
		streamsTopic: s.streams, memoryTopic: s.memory, copiesTopic: s.copies, contextsTopic: s.contexts,
		codeTopic: s.code, graphsTopic: s.graphs,
	}
	c.Topics = s.topics[1:]
	return s, nil
}

// Close ends everything, waiting for nothing longer than a kernel takes to be cancelled.
func (s *Session) Close() error {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	if s.core.Closed {
		return nil
	}
	s.core.Closed = true
	close(s.core.Ended)
	s.streams.Close()
	s.core.Exports.Close()
	var first error
	for _, handle := range slices.Sorted(maps.Keys(s.core.Contexts)) {
		if c := s.core.Contexts[handle]; c != nil {
			s.core.Objects.Destroy(c.Object, func(*object.Object) {})
		}
	}
	clear(s.core.Contexts)
	for _, d := range s.core.Devices {
		if d.GPU != nil {
			d.Opened.Store(nil)
			if err := d.GPU.Close(); err != nil && first == nil {
				first = fmt.Errorf("close GPU %d: %w", d.Ordinal, err)
			}
			d.GPU = nil
		}
	}
	s.memory.Close()
	return first
}

// HostFunctions is how many functions of the program streams wait for.
func (s *Session) HostFunctions() int { return s.streams.HostFunctions() }

// Code lists the code that the program has loaded.
func (s *Session) Code() []code.Loaded { return s.code.List() }

// ShowRegistered is for a restored session when the program is back and stands still: kernels reach
// the memory again that the program has registered.
func (s *Session) ShowRegistered() error { return s.memory.ShowRegistered() }
