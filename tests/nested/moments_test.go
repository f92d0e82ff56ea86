package nested

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// TestEventTimesOfOldContexts: what is saved of events keeps the times between them, however old the
// context is: the driver says the time since its beginning by the millisecond only. What a program
// was told is saved as exactly that.
func TestEventTimesOfOldContexts(t *testing.T) {
	if !ownProcess(t, faulty("old_context.c")) {
		return
	}
	b := openBackend(t)
	s := b.stream()
	var points []point
	for i := range 6 {
		if i%2 == 0 {
			time.Sleep(1200 * time.Millisecond) // the context gets older
		}
		p := point{before: b.newTimedEvent(), event: b.newTimedEvent(), after: b.newTimedEvent()}
		b.submit(s, b.fill(0, byte(i)), gpu.Record{Event: p.before}, gpu.Record{Event: p.event}, gpu.Record{Event: p.after})
		b.must(s.Synchronize())
		points = append(points, p)
	}
	told := map[gpu.Event]float32{} // since the first of all, by the driver
	for _, p := range points {
		told[p.before], told[p.after] = b.elapsed(points[0].before, p.before), b.elapsed(points[0].before, p.after)
	}
	moments := map[gpu.Event]time.Duration{}
	for _, i := range []int{4, 1, 0, 5, 3, 2} { // in whatever order they are asked for
		moments[points[i].event] = b.eventTime(points[i].event)
	}
	for i, from := range points {
		for j, to := range points[i+1:] {
			saved := moments[to.event] - moments[from.event]
			// Numbers of the driver's kind have 24 bits, however long ago the first event was.
			off := 2*time.Microsecond + duration(told[to.after])>>22
			least, most := duration(told[to.before]-told[from.after])-off, duration(told[to.after]-told[from.before])+off
			if saved < least || saved > most {
				t.Errorf("from event %d to %d: saved as %v, the driver says %v to %v", i, i+1+j, saved, least, most)
			}
			if again := b.elapsed(from.event, to.event); again != milliseconds(saved) {
				t.Errorf("from event %d to %d: saved as %v, and told as %v ms", i, i+1+j, saved, again)
			}
		}
	}
	begin := b.eventTime(points[0].before)
	for event, ms := range told {
		if saved := b.eventTime(event) - begin; milliseconds(saved) != ms {
			t.Errorf("told as %v ms, and saved as %v", ms, saved)
		}
	}
}

// point is an event, and what is recorded just before and after it.
type point struct{ before, event, after gpu.Event }

// newTimedEvent is a new event that has times.
func (b *backendTest) newTimedEvent() gpu.Event {
	event, err := b.context.NewEvent(gpu.EventOptions{Timing: true})
	b.must(err)
	return event
}

func (b *backendTest) elapsed(from, to gpu.Event) float32 {
	ms, err := to.ElapsedSince(from)
	b.must(err)
	return ms
}

func (b *backendTest) eventTime(event gpu.Event) time.Duration {
	m, err := b.context.(gpu.Resumable).Moment(event)
	b.must(err)
	return m.Clock
}

func duration(ms float32) time.Duration { return time.Duration(float64(ms) * 1e6) }

func milliseconds(d time.Duration) float32 { return float32(float64(d) / 1e6) }
