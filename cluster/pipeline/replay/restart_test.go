package replay

import (
	"math/rand/v2"
	"testing"
	"time"
)

// restartsBySeconds is that run second by second, from a list of events. All its times are whole
// seconds.
func restartsBySeconds(r *Restarts) (steps int) {
	second := func(d time.Duration) int { return int(d / time.Second) }
	nodes, next := r.Throughput.Largest(), 0
	present, wait, doing, writing, saved := nodes, second(r.Ready+r.Restart), 0, 0, 0
	for now := range second(r.Trace[len(r.Trace)-1].At) {
		for ; next < len(r.Trace)-1 && second(r.Trace[next].At) == now; next++ {
			if present += change(r.Trace[next]); r.Trace[next].Up && r.Throughput[nodes] > 0 {
				continue
			}
			nodes, wait, doing, writing, steps = present, second(r.Restart), 0, 0, saved
		}
		if wait > 0 {
			wait--
			continue
		}
		if writing > 0 {
			if writing--; writing == 0 && now+1 < second(r.Trace[len(r.Trace)-1].At) && !fails(r, now+1) {
				saved = steps
			}
			continue
		}
		if r.Throughput[nodes] == 0 {
			continue
		}
		if doing++; doing < second(r.stepOf(r.Throughput[nodes])) {
			continue
		}
		if doing = 0; now+1 == second(r.Trace[len(r.Trace)-1].At) || fails(r, now+1) {
			continue // a step that ends with a failure does not count
		}
		if steps++; steps-saved >= r.Every {
			if writing = second(r.Checkpoint); writing == 0 {
				saved = steps
			}
		}
	}
	return steps
}

// fails reports whether a node fails at a second.
func fails(r *Restarts, at int) bool {
	for _, e := range r.Trace {
		if !e.Up && e.At == time.Duration(at)*time.Second {
			return true
		}
	}
	return false
}

func TestRestarts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		r := &Restarts{
			Run:     Run{Throughput: Throughput{}, Ready: time.Duration(random.IntN(9)) * time.Second, SamplesPerStep: 60},
			Restart: time.Duration(random.IntN(40)) * time.Second, Checkpoint: time.Duration(random.IntN(5)) * time.Second,
			Every: 1 + random.IntN(5),
		}
		const most = 6
		for nodes := range most + 1 {
			r.Throughput[nodes] = []int64{0, 1, 2, 3, 4, 5, 6}[random.IntN(7)] * 1_000_000
		}
		at := 60
		for present := most; len(r.Trace) < 12; {
			at += 1 + random.IntN(200)
			up := present == 0 || present < most && random.IntN(3) == 0
			r.Trace = append(r.Trace, Event{At: time.Duration(at) * time.Second, Up: up})
			present += change(r.Trace[len(r.Trace)-1])
		}
		report, err := r.Replay()
		if err != nil {
			t.Fatal(err)
		}
		sum := report.Useful + report.Lost + report.Paused + report.Idle + report.Unfinished + report.Checkpoints
		if sum != report.End-report.First {
			t.Fatalf("%v is accounted for of %v: %+v", sum, report.End-report.First, report)
		}
		if want := restartsBySeconds(r); want != report.Steps {
			t.Fatalf("%d steps, second by second %d: %+v", report.Steps, want, r)
		}
	}
}
