package control

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// endedLaunch returns the record of a launch of one process that has run and ended.
func endedLaunch(w *world) []byte {
	w.Helper()
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.finish(a.awaitRunning(1)[0], 0)
	w.await(id, launch.Ended)
	var text []byte
	w.turn(func(l *Leader) { text = l.launches[id].Encode() })
	return text
}

// keepEnded gives a leader more launches that have ended, a second apart.
func keepEnded(w *world, text []byte, count int) {
	w.Helper()
	w.turn(func(l *Leader) {
		for range count {
			kept, err := record.DecodeLaunch(text)
			if err != nil {
				w.Fatal(err)
			}
			kept.Number = l.latest + 1
			kept.ID = fmt.Sprintf("l-%010d", kept.Number)
			kept.Ended = kept.Ended.Add(time.Duration(kept.Number) * time.Second)
			l.keep(&entry{Launch: kept})
		}
	})
}

// TestKeepMost: of too many launches that have ended, those that ended first are forgotten.
func TestKeepMost(t *testing.T) {
	w := newWorld(t)
	w.turn(func(l *Leader) { l.settings.KeepMost = 20 })
	keepEnded(w, endedLaunch(w), 30)
	w.turn(func(l *Leader) {
		l.lookAtTheClock()
		oldest := l.latest
		for number := range l.numbers {
			oldest = min(oldest, number)
		}
		if len(l.launches) != 21 || oldest != l.latest-20 { // the latest one stays in any case
			t.Errorf("%d launches are left, the oldest is %d of %d", len(l.launches), oldest, l.latest)
		}
	})
}

// mostPerEnded is the heap that a leader may need for a launch that has ended. The process needs
// about twice as much, until garbage is collected.
const mostPerEnded = 4 << 10

// TestMemoryOfEnded: a launch of one process that has ended needs little memory.
func TestMemoryOfEnded(t *testing.T) {
	const count = 10_000
	w := newWorld(t)
	text := endedLaunch(w)
	heap := func() (bytes uint64) {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	before := heap()
	keepEnded(w, text, count)
	each := (heap() - before) / count
	t.Logf("%d bytes of the heap for each, and %d in the store", each, len(text))
	if each > mostPerEnded {
		t.Errorf("%d bytes of the heap for each, want at most %d", each, mostPerEnded)
	}
	w.turn(func(l *Leader) {
		if len(l.launches) <= count {
			t.Errorf("%d launches are known", len(l.launches))
		}
	})
}
