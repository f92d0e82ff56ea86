package crash

import (
	"math/rand/v2"
	"testing"
	"time"
)

// moments are random ones in the time that a checkpoint or a restore takes.
func moments() (all []time.Duration) {
	count := 8
	if full() {
		count = 100
	}
	for range count {
		all = append(all, rand.N(400*time.Millisecond))
	}
	return all
}

// crashed runs a command of pos_cli, kills phosd at a moment, and starts the next one.
func (r *room) crashed(moment time.Duration, run func() (string, error)) {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() {
		text, err := run()
		r.t.Logf("%v: %s", err, text)
		ended <- err
	}()
	time.Sleep(moment)
	r.daemon.Kill()
	_ = r.await(ended) // it may have ended well before
	r.daemon.Relaunch()
}

// TestSaveCrashes kills phosd at any moment of a checkpoint: also within a step.
func TestSaveCrashes(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for i, moment := range moments() {
		t.Run(moment.String(), func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			stop := i%2 == 1
			r.crashed(moment, func() (string, error) { return r.save(stop) })
			if len(r.snapshot().generations) > len(before.generations) {
				r.grown(before)
			} else {
				r.unchanged(before, true)
			}
			r.settle(stop)
			if !r.job.Alive() {
				r.restore()
			}
			r.runsOn()
			r.alone()
		})
		if t.Failed() {
			return
		}
	}
	r.job.PreDump()
	r.verified()
	r.ends()
	r.tidy(0, 0)
	r.job.Restore()
	r.ends()
}

// settle waits until it is clear whether a program that may have been ended runs on.
func (r *room) settle(mayEnd bool) {
	r.t.Helper()
	lines := r.job.Lines()
	r.eventually(func() string {
		if r.job.Lines() > lines || mayEnd && !r.job.Alive() {
			return ""
		}
		return "the program neither runs on nor is gone: " + r.job.Said()
	})
	if !r.job.Alive() {
		r.tidy(0, 0)
		r.free()
	}
}

// TestBringCrashes kills phosd at any moment of a restore.
func TestBringCrashes(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	before := r.snapshot()
	for _, moment := range moments() {
		t.Run(moment.String(), func(t *testing.T) {
			r := r.in(t)
			r.crashed(moment, func() (string, error) { return r.bring() })
			r.eventually(func() string {
				// Either all of it is there, or nothing.
				if text := r.untidy(0, 0); text != "" {
					if other := r.untidy(1, 1); other != "" {
						return text + "\nnor: " + other
					}
				}
				return ""
			})
			if r.job.Alive() {
				*r.keepers = 1
				r.runsOn()
				r.job.Kill()
				r.tidy(0, 0)
			}
			r.free()
			r.unchanged(before, false)
		})
		if t.Failed() {
			return
		}
	}
	r.job.Restore()
	r.ends()
	r.tidy(0, 0)
}
