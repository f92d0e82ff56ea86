package nested

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// TestEventTimesOfOldContexts: saved events keep the times between them, however old the context
// is. The driver reports the time since the context's beginning in milliseconds only. Times that
// the program has read are saved exactly.
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
		b.submit(
			s,
			b.fill(0, byte(i)),
			gpu.Record{Event: p.before},
			gpu.Record{Event: p.event},
			gpu.Record{Event: p.after},
		)
		b.must(s.Synchronize())
		points = append(points, p)
	}
	reported := map[gpu.Event]float32{} // since the first event, as the driver reports it
	for _, p := range points {
		reported[p.before], reported[p.after] = b.elapsed(
			points[0].before,
			p.before,
		), b.elapsed(
			points[0].before,
			p.after,
		)
	}
	times := map[gpu.Event]time.Duration{}
	for _, i := range []int{4, 1, 0, 5, 3, 2} { // in any order
		times[points[i].event] = b.eventTime(points[i].event)
	}
	for i, from := range points {
		for j, to := range points[i+1:] {
			saved := times[to.event] - times[from.event]
			// The driver's numbers have 24 bits, however long ago the first event was.
			off := 2*time.Microsecond + duration(reported[to.after])>>22
			least, most := duration(
				reported[to.before]-reported[from.after],
			)-off, duration(
				reported[to.after]-reported[from.before],
			)+off
			if saved < least || saved > most {
				t.Errorf(
					"from event %d to %d: saved %v, want %v to %v as the driver reports",
					i,
					i+1+j,
					saved,
					least,
					most,
				)
			}
			if again := b.elapsed(from.event, to.event); again != milliseconds(saved) {
				t.Errorf("from event %d to %d: saved %v, want %v ms as reported before", i, i+1+j, saved, again)
			}
		}
	}
	begin := b.eventTime(points[0].before)
	for event, ms := range reported {
		if saved := b.eventTime(event) - begin; milliseconds(saved) != ms {
			t.Errorf("reported %v ms, saved %v", ms, saved)
		}
	}
}

// point is an event, with events recorded just before and after it.
type point struct{ before, event, after gpu.Event }

// newTimedEvent returns a new event that has times.
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
	m, err := b.context.(gpu.Resumable).EventTime(event)
	b.must(err)
	return m.Clock
}

func duration(ms float32) time.Duration { return time.Duration(float64(ms) * 1e6) }

func milliseconds(d time.Duration) float32 { return float32(float64(d) / 1e6) }
