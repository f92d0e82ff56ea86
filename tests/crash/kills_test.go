package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

const (
	// sampleKills is the number of kills without KILLS in the environment.
	sampleKills = 20
	// killsPerRun is after how many kills the program's results are compared.
	killsPerRun = 10
	// killsPerUser is after how many kills it is another user's turn.
	killsPerUser = 10
	// maxKillDelay is about as long as a checkpoint or a restore takes.
	maxKillDelay = 250 * time.Millisecond
)

// kill is one kill during one command.
type kill struct {
	// restore is set during a restore, stop during a checkpoint that ends the program.
	restore, stop bool
	// victim is part of the victim's command line, fatal set if the program ends with it.
	victim string
	fatal  bool
	// appears is set for a victim that does not exist before the command: the delay begins when it
	// appears.
	appears bool
	delay   time.Duration
}

// killVictims are the processes that are killed: during checkpoints, restores, or both.
var killVictims = []struct {
	name, command      string
	checkpoint         bool
	restore            bool
	fatal, appears     bool
	maxDelayAppearance time.Duration
}{
	{"phosd", "phosd --", true, true, false, false, maxKillDelay},
	{"watchdog", "phosd watchdog", true, false, false, true, 60 * time.Millisecond},
	{"CRIU", criu, true, true, false, true, 50 * time.Millisecond},
	{"restorer", "phosd restorer", false, true, false, true, 60 * time.Millisecond},
	{"worker", "phosd worker ", true, false, true, false, maxKillDelay},
	{"new worker", "phosd worker ", false, true, true, true, 60 * time.Millisecond},
	{"program", " enough", true, false, true, false, maxKillDelay},
	{"restored program", " enough", false, true, true, true, 60 * time.Millisecond},
	{"pos_cli", "/pos_cli --", true, true, false, true, maxKillDelay},
}

// randomKill chooses what is killed, and when.
func randomKill(random *rand.Rand) (k kill, name string) {
	k.restore = random.IntN(2) == 0
	k.stop = !k.restore && random.IntN(2) == 0
	for {
		v := killVictims[random.IntN(len(killVictims))]
		if k.restore && v.restore || !k.restore && v.checkpoint {
			k.victim, k.fatal, k.appears = v.command, v.fatal, v.appears
			k.delay = time.Duration(random.Int64N(int64(v.maxDelayAppearance)))
			return k, v.name
		}
	}
}

// TestRandomKills kills a random process at a random time of a checkpoint or a restore, again and
// again. After each kill all complete generations are whole, the newest can be restored, and
// nothing is left behind. A program ends only if it was killed itself, with its worker or by the
// checkpoint. In the end all that it has computed is as in an undisturbed run.
//
// The program runs as root and as an ordinary user by turns.
//
// KILLS is the number of kills, KILLS_SEED repeats a run.
func TestRandomKills(t *testing.T) {
	count := int(harness.Setting(t, "KILLS", sampleKills))
	seed := harness.Setting(t, "KILLS_SEED", rand.Uint64())
	t.Logf("%d kills, KILLS_SEED=%d", count, seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be possible to repeat it
	hits := make(map[string]int)
	for begun, uid := 0, uint32(0); begun < count; begun, uid = begun+killsPerUser, ordinary-uid {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			r := newFixtureOf(t, uid)
			r.job.PreDump()
			r.killsOf(random, min(killsPerUser, count-begun), hits)
		})
		if t.Failed() {
			t.Fatalf("in the %d kills from number %d on, KILLS_SEED=%d", killsPerUser, begun, seed)
		}
	}
	t.Logf("kills that found their victim: %v", hits)
}

// killsOf makes random kills, and counts those that found their victim.
func (r *fixture) killsOf(random *rand.Rand, count int, hits map[string]int) {
	t := r.t
	for i := range count {
		k, name := randomKill(random)
		during := map[bool]string{true: "restore", false: "checkpoint"}[k.restore]
		t.Run(fmt.Sprintf("%d/%s/%s", i, during, name), func(t *testing.T) {
			if r.forSubtest(t).survives(k) {
				hits[during+" "+name]++
			}
		})
		if t.Failed() {
			t.Fatalf("after %d kills", i+1)
		}
		if (i+1)%killsPerRun == 0 || i+1 == count {
			r.completesRun()
		}
	}
}

// survives makes one kill and checks what it leaves: a running program and whole images. It reports
// whether the victim was there.
func (r *fixture) survives(k kill) (hit bool) {
	r.t.Helper()
	if k.restore {
		r.job.Kill()
		*r.restorers = 0
		r.cleanWith(0, 0)
		r.waitPIDFree()
	}
	before := r.snapshot()
	text, err, hit := r.killDuring(k)
	r.t.Logf("%v after %v: %v: %s", hit, k.delay, err, text)
	r.settled(k.fatal && hit)
	alive := r.job.Alive()
	added := r.keepsGenerations(before)
	switch {
	case k.restore:
		r.unchanged(before, true)
	case !alive && !(k.fatal && hit) && !(k.stop && added) && !(k.victim == criu && r.endedByDamage(err, text)):
		r.t.Errorf("the program ended, but not by the kill: %v: %s", err, text)
	}
	if alive {
		r.stillRuns()
		r.clean()
		r.job.Kill()
	}
	r.cleanWith(0, 0)
	r.waitPIDFree()
	r.restore()
	r.stillRuns()
	r.clean()
	r.verified()
	return hit
}

// killDuring runs the command and makes the kill. If phosd was killed, it starts the next one.
func (r *fixture) killDuring(k kill) (text string, err error, hit bool) { //nolint:revive // the error is the command's
	r.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if k.restore {
			text, err = r.tryRestore()
		} else {
			text, err = r.tryCheckpoint(k.stop)
		}
	}()
	daemon := k.victim == "phosd --"
	if pid := r.daemon.PID(); daemon {
		select {
		case <-time.After(k.delay):
		case <-ended:
		}
		hit = describe(pid) != ""
		r.daemon.Kill()
	} else {
		hit = r.killFound(k, ended)
	}
	<-ended
	if daemon {
		r.daemon.Relaunch()
	}
	return text, err, hit
}

// killFound waits for the victim, kills it after the delay, and reports whether it was there.
func (r *fixture) killFound(k kill, ended <-chan struct{}) bool {
	pid := waitProcess(r.t, k.victim, ended)
	if pid == 0 {
		return false
	}
	// The descriptor names the process even after its end.
	victim, err := unix.PidfdOpen(pid, 0)
	if err != nil || !strings.Contains(describe(pid), k.victim) {
		return false
	}
	defer unix.Close(victim)
	select {
	case <-time.After(k.delay):
	case <-ended:
	}
	if unix.PidfdSendSignal(victim, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	r.eventually(func() string {
		ended := []unix.PollFd{{Fd: int32(victim), Events: unix.POLLIN}}
		if n, _ := unix.Poll(ended, 0); n == 0 {
			return fmt.Sprintf("pid %d does not end after SIGKILL", pid)
		}
		return ""
	})
	return true
}

// settled waits until the program is gone as a whole or, unless ends is set, runs alone. A restored
// program goes on without its restorer.
func (r *fixture) settled(ends bool) {
	r.t.Helper()
	r.eventually(func() string {
		for _, program := range r.daemon.Status().GetPrograms() {
			if program.GetCheckpointRunning() {
				return fmt.Sprintf("pid %d is still being saved", program.GetPid())
			}
		}
		gone := r.leftovers(0, 0)
		if gone == "" || ends {
			return gone
		}
		for restorers := range 2 {
			if r.leftovers(1, restorers) == "" {
				*r.restorers = restorers
				return ""
			}
		}
		return gone
	})
}

// keepsGenerations checks that no generation was lost, and that all are whole. It reports whether
// there is a new one.
func (r *fixture) keepsGenerations(before snapshot) (added bool) {
	r.t.Helper()
	after := r.snapshot()
	for i, generation := range before.generations {
		if i >= len(after.generations) || after.generations[i] != generation {
			r.t.Errorf("generations %v, before %v", after.generations, before.generations)
			break
		}
	}
	r.verified()
	return len(after.generations) > len(before.generations)
}

// completesRun ends the program, compares all that it has computed, and begins the next image with
// the newest generation of this one.
func (r *fixture) completesRun() {
	r.t.Helper()
	r.finishAndCompare()
	r.cleanWith(0, 0)
	r.waitPIDFree()
	*r.restorers = 0
	r.restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
	r.restore()
	r.job.Cli("image", "prune", r.job.Image, "--keep", "1")
}
