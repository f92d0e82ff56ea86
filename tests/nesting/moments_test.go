package nesting

import (
	"os"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/tests/lab"
)

// TestMomentsOfOldContexts: what is saved of events keeps the times between them, however old the context is: the driver says the time
// since its beginning by the millisecond only.
func TestMomentsOfOldContexts(t *testing.T) {
	socket := os.Getenv(innerSocket)
	if socket == "" {
		t.Setenv(otherLibrary, inFront(t, "old_context.c"))
		alone(t, lab.Start(t).Socket, "^TestMomentsOfOldContexts$")
		return
	}
	b := openBehind(t, socket)
	s := b.stream()
	var events []gpu.Event
	for i := range 6 {
		event, err := b.context.NewEvent(gpu.EventOptions{Timing: true})
		b.must(err)
		events = append(events, event)
		if i%2 == 0 {
			time.Sleep(1200 * time.Millisecond) // the context gets older
		}
		b.submit(s, b.fill(0, byte(i)), gpu.Record{Event: event})
		b.must(s.Synchronize())
	}
	context := b.context.(gpu.Resumable)
	moments := make([]time.Duration, len(events))
	for _, i := range []int{4, 1, 0, 5, 3, 2} { // in whatever order they are asked for
		m, err := context.Moment(events[i])
		b.must(err)
		moments[i] = m.Clock
	}
	for i, from := range events {
		for j := i + 1; j < len(events); j++ {
			ms, err := events[j].ElapsedSince(from)
			b.must(err)
			saved, told := moments[j]-moments[i], time.Duration(float64(ms)*1e6)
			// Numbers of the driver's kind have 24 bits, however long ago the first event was.
			if off := (saved - told).Abs(); off > 2*time.Microsecond+told>>23 {
				t.Errorf("from event %d to %d: saved as %v, the driver says %v", i, j, saved, told)
			}
		}
	}
}
