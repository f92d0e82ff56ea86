package session

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
)

// Save writes down everything but the content of memory. The session must be quiet; the error is
// ErrBusy or ErrCapturing where it is not.
func (s *Session) Save() ([]byte, error) {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	if err := s.checkQuiet(); err != nil {
		return nil, err
	}
	if err := s.unsavable(); err != nil {
		return nil, err
	}
	e := core.NewEncoder(len(s.core.Devices), s.core.Exports.Dir)
	e.Out.Made, e.Out.Completed = s.made.Load(), s.completed.Load()
	e.Out.Handles = s.core.Objects.LastIndices()
	e.Out.LastCapture = s.core.Captures.LastID()
	for _, t := range s.core.Topics {
		t.Save(e)
	}
	for o := range s.core.Objects.Records() {
		if !o.Retired() {
			e.Add(o)
		}
	}
	e.Out.Exporter = s.core.Exports.Name()
	return e.Bytes()
}

// Unsavable returns an error if the session holds something that no checkpoint can have.
func (s *Session) Unsavable() error {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	return s.unsavable()
}

// unsavable is Unsavable with the lock held.
func (s *Session) unsavable() error {
	for _, d := range s.core.Devices {
		if c, ok := d.GPU.(gpu.Unsavable); ok {
			if why := c.Unsavable(); why != "" {
				return fmt.Errorf("%w: GPU %d: %s", ErrUnsavable, d.Ordinal, why)
			}
		}
	}
	return nil
}

// Memory is the memory of a GPU that the program uses.
type Memory struct {
	Ordinal int
	gpu.Memory
	// Mapped are the ranges of chunks that have memory, by address.
	Mapped []gpu.Range
}

// GPUs is how many the program knows.
func (s *Session) GPUs() int { return len(s.core.Devices) }

// Memories lists the memory of the GPUs that are open.
func (s *Session) Memories() []Memory {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	var memories []Memory
	for _, d := range s.core.Devices {
		if d.GPU != nil {
			memories = append(memories, Memory{d.Ordinal, d.GPU.Memory(), slices.Collect(d.Heap.Mapped())})
		}
	}
	return memories
}

// ArenaRanges lists the pages of the arena that are in use, by address.
func (s *Session) ArenaRanges() []gpu.Range { return s.memory.ArenaRanges() }

// Counts returns how many objects of each kind are living.
func (s *Session) Counts() map[string]uint64 {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	counts := map[string]uint64{}
	for o := range s.core.Objects.Records() {
		switch {
		case o.Retired():
		case o.Kind == object.KindMemory:
			counts["memory"]++
		case o.Kind == object.KindImported:
			counts["shared memory"]++
		case o.Kind == object.KindPinned:
			counts["pinned memory"]++
		case o.Kind == object.KindRegistered:
			counts["registered memory"]++
		default:
			counts[o.Kind.String()]++
		}
	}
	return counts
}
