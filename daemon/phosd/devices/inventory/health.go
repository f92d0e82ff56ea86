package inventory

import (
	"slices"
	"sync"
	"time"
)

// maxEvents is how many events are kept of each GPU.
const maxEvents = 16

// Noted is an event with the time at which it was reported.
type Noted struct {
	Event
	At time.Time
}

// Health is the errors of the GPUs since phosd started. The zero value is ready for use.
type Health struct {
	mu     sync.Mutex // guards events
	events []Noted
}

// Note records an event.
func (h *Health) Note(e Event, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Noted{e, at})
	count := 0
	for _, each := range h.events {
		if each.same(e) {
			count++
		}
	}
	if count > maxEvents {
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

// Lost returns why a GPU is lost, by its events and the driver's report; "" if it is not.
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

// Is reports whether the event is about this GPU. A lost GPU may have no UUID, but the driver knows
// its bus id.
func (e Event) Is(g *GPU) bool {
	switch {
	case e.UUID != "" && g.UUID != "":
		return e.UUID == g.UUID
	case e.BusID != "" && g.BusID != "":
		return e.BusID == g.BusID
	}
	return e.Index == g.Index
}

// same reports whether two events are about the same GPU.
func (e Event) same(other Event) bool {
	return e.Is(&GPU{Index: other.Index, UUID: other.UUID, BusID: other.BusID})
}
