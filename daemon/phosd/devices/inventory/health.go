package inventory

import (
	"slices"
	"sync"
	"time"
)

// mostEvents are kept of each GPU.
const mostEvents = 16

// Noted is an event and when it was heard of.
type Noted struct {
	Event
	At time.Time
}

// Health is what has gone wrong with the GPUs since phosd runs. The zero value is ready.
type Health struct {
	mu     sync.Mutex // guards events
	events []Noted
}

// Note keeps an event.
func (h *Health) Note(e Event, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Noted{e, at})
	ours := 0
	for _, each := range h.events {
		if each.same(e) {
			ours++
		}
	}
	if ours > mostEvents {
		oldest := slices.IndexFunc(h.events, func(each Noted) bool { return each.same(e) })
		h.events = slices.Delete(h.events, oldest, oldest+1)
	}
}

// Of lists the events of a GPU, the newest last.
func (h *Health) Of(g *GPU) (found []Noted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, each := range h.events {
		if each.Is(g) {
			found = append(found, each)
		}
	}
	return found
}

// Lost says why a GPU serves nobody any more, by what the driver says and what has happened; empty:
// it does.
func (h *Health) Lost(g *GPU) string {
	for _, each := range h.Of(g) {
		if each.Fatal() {
			return each.Text()
		}
	}
	if g.Lost != "" {
		return "the GPU is lost: " + g.Lost
	}
	return ""
}

// Is reports whether the event is about this GPU. One that is lost may not tell its identity any
// more, but the driver knows its place.
func (e Event) Is(g *GPU) bool {
	switch {
	case e.UUID != "" && g.UUID != "":
		return e.UUID == g.UUID
	case e.BusID != "" && g.BusID != "":
		return e.BusID == g.BusID
	}
	return e.Index == g.Index
}

// same reports whether two events are about one GPU.
func (e Event) same(other Event) bool {
	return e.Is(&GPU{Index: other.Index, UUID: other.UUID, BusID: other.BusID})
}
