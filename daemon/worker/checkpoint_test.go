package worker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Threads that compute on go on rightly, however often they are checkpointed, and stopped and made again from the image.
func TestCheckpointAndRestore(t *testing.T) {
	s := newStand(t, "soft:1")
	work := startWork(t, s.program, 3)
	random := rand.New(rand.NewPCG(5, 5))
	for round := range 8 {
		await(t, work, 10)
		d := s.dump()
		d.begin()
		d.cut()
		if round%2 == 0 { // it keeps running
			s.program.Thaw()
			d.must(resume())
			await(t, work, uint64(random.IntN(10)))
			if result := d.must(finish()).GetResult(); result.GetMemoryBytes() == 0 || result.GetObjects()["memory"] != 3 {
				t.Errorf("result: %v", result)
			}
			d.end()
			continue
		}
		tree := d.must(finish()).GetResult().GetTree()
		d.end()
		s.restore(tree, round%4 == 1)
	}
	await(t, work, 10)
	work.end()
	if s.program.Session() != 5 {
		t.Errorf("session %d, want 5", s.program.Session())
	}
}

// await waits until the threads have done so many more steps.
func await(t *testing.T, w *work, steps uint64) {
	t.Helper()
	for want, began := w.steps.Load()+steps, time.Now(); w.steps.Load() < want; time.Sleep(time.Millisecond) {
		if t.Failed() || time.Since(began) > time.Minute {
			t.Fatal("the program does not go on")
		}
	}
}
