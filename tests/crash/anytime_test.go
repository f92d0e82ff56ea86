package crash

import (
	"math/rand/v2"
	"testing"
	"time"
)

// killDelays returns random delays within the time that a checkpoint or a restore takes.
func killDelays() (all []time.Duration) {
	count := 8
	if full() {
		count = 100
	}
	for range count {
		all = append(all, rand.N(400*time.Millisecond))
	}
	return all
}

// crashDuring runs a command of pos_cli, kills phosd after a delay, and starts the next phosd.
func (r *fixture) crashDuring(delay time.Duration, run func() (string, error)) {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() {
		text, err := run()
		r.t.Logf("%v: %s", err, text)
		ended <- err
	}()
	time.Sleep(delay)
	r.daemon.Kill()
	_ = r.await(ended) // the command may have ended before the kill
	r.daemon.Relaunch()
}

// TestCheckpointCrashes kills phosd at random times during a checkpoint, also within a step.
func TestCheckpointCrashes(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for i, delay := range killDelays() {
		t.Run(delay.String(), func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			stop := i%2 == 1
			r.crashDuring(delay, func() (string, error) { return r.tryCheckpoint(stop) })
			if len(r.snapshot().generations) > len(before.generations) {
				r.oneGenerationMore(before)
			} else {
				r.unchanged(before, true)
			}
			r.settle(stop)
			if !r.job.Alive() {
				r.restore()
			}
			r.stillRuns()
			r.clean()
		})
		if t.Failed() {
			return
		}
	}
	r.job.PreDump()
	r.verified()
	r.finishAndCompare()
	r.cleanWith(0, 0)
	r.job.Restore()
	r.finishAndCompare()
}

// settle waits until the program has either printed more lines or, if mayEnd is set, ended.
func (r *fixture) settle(mayEnd bool) {
	r.t.Helper()
	lines := r.job.Lines()
	r.eventually(func() string {
		if r.job.Lines() > lines || mayEnd && !r.job.Alive() {
			return ""
		}
		return "the program neither printed lines nor ended: " + r.job.Stderr()
	})
	if !r.job.Alive() {
		r.cleanWith(0, 0)
		r.waitPIDFree()
	}
}

// TestRestoreCrashes kills phosd at random times during a restore.
func TestRestoreCrashes(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	before := r.snapshot()
	for _, delay := range killDelays() {
		t.Run(delay.String(), func(t *testing.T) {
			r := r.forSubtest(t)
			r.crashDuring(delay, func() (string, error) { return r.tryRestore() })
			r.eventually(func() string {
				// Either the whole program was restored, or nothing of it remains.
				if text := r.leftovers(0, 0); text != "" {
					if other := r.leftovers(1, 1); other != "" {
						return text + "\nnor: " + other
					}
				}
				return ""
			})
			if r.job.Alive() {
				*r.restorers = 1
				r.stillRuns()
				r.job.Kill()
				r.cleanWith(0, 0)
			}
			r.waitPIDFree()
			r.unchanged(before, false)
		})
		if t.Failed() {
			return
		}
	}
	r.job.Restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}
