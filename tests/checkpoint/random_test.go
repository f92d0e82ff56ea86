package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestRandomTimes saves, kills and restores programs at random times. PHOS_ROUNDS is the number
// of rounds for each program, PHOS_SEED repeats an earlier run, and PHOS_SUBJECT selects one
// program.
func TestRandomTimes(t *testing.T) {
	rounds, seed := harness.Setting(t, "PHOS_ROUNDS", 1),
		harness.Setting(t, "PHOS_SEED", uint64(time.Now().UnixNano())%1e9)
	t.Logf("PHOS_SEED=%d PHOS_ROUNDS=%d", seed, rounds)
	for i, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // it waits half of the time
			if only := os.Getenv("PHOS_SUBJECT"); only != "" && only != s.name {
				t.Skipf("PHOS_SUBJECT is %s", only)
			}
			daemon, program := start(t), s.program(t)
			want, status := runUndisturbed(s.job(t, daemon, program, 0))
			if !strings.Contains(want["out"], "\nok ") || status != 7 {
				t.Fatalf("the undisturbed run exited with status %d: %s%s", status, want["out"], want["err"])
			}
			for n := range rounds {
				random := rand.New(rand.NewPCG(seed, n<<8|uint64(i)))
				pause := time.Duration(random.IntN(20)) * time.Millisecond
				r := &round{
					Rand:   random,
					t:      t,
					daemon: daemon,
					job:    s.job(t, daemon, program, pause),
					want:   want,
					status: status,
					steps:  s.steps,
				}
				if rounds == 1 {
					r.begin = s.slowSteps
				}
				// Half of the programs wait at their end for the disturbances, and may be saved
				// while they wait. The other half exit when they are done.
				r.job.Hold = random.IntN(2) == 0
				r.play()
			}
			daemon.Empty()
		})
	}
}

// round is one run of a program with all its disturbances.
type round struct {
	*rand.Rand
	t           *testing.T
	daemon      *harness.Daemon
	job         *harness.Job
	want        harness.Result
	status      int
	steps       int
	begin       int
	done        []string
	generations int
}

// play disturbs the program several times, lets it finish, and then restores every image.
func (r *round) play() {
	r.t.Helper()
	defer func() {
		r.t.Logf("%s; then each of %d generations", strings.Join(r.done, ", "), r.generations)
	}()
	r.job.Start()
	r.job.WaitLines(r.begin + 1 + r.IntN(4))
	for range 2 + r.IntN(4) {
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		if !r.disturb() {
			break
		}
	}
	r.finish("at last")
	for n := r.generations; n > 0; n-- {
		r.restore(n)
		r.finish(fmt.Sprintf("from generation %d", n))
	}
}

// disturb does something to the program, and reports whether it still runs.
func (r *round) disturb() bool {
	r.t.Helper()
	switch choice := r.IntN(12); {
	case choice < 5:
		return r.checkpoint("--pre-dump")
	case choice < 7:
		r.killDaemon()
	case choice < 10:
		if !r.checkpoint("--dump") {
			return false
		}
		r.job.WaitGone()
		r.restore(0)
	default:
		if !r.checkpoint("--pre-dump") {
			return false
		}
		r.done = append(r.done, "kill")
		r.job.Kill()
		r.restore(1 + r.IntN(r.generations))
	}
	return true
}

// killDaemon kills phosd and starts it again, unless this would separate the program from its
// pos_cli.
func (r *round) killDaemon() {
	if r.job.Attended() && r.job.Restored() {
		return
	}
	r.done = append(r.done, "phosd killed")
	r.daemon.Relaunch()
}

// checkpoint takes an image. It returns false if the program has exited before.
func (r *round) checkpoint(verb string) bool {
	r.t.Helper()
	r.done = append(r.done, fmt.Sprintf("%s after line %d", verb, r.job.Lines()))
	flags := []string{verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)}
	if r.IntN(4) == 0 {
		flags = append(flags, "--compress")
	}
	if r.IntN(4) == 0 {
		flags = append(flags, "--budget=4MiB")
	}
	text, err := r.job.TryCli(flags...)
	if err == nil {
		r.generations++
		return true
	}
	// Only the final output may follow the last step.
	if lines := r.job.Lines(); lines < r.steps || r.job.Hold {
		r.t.Fatalf("%s: after %d lines: %v: %s\n%s", strings.Join(r.done, ", "), lines, err, text, r.job.Stderr())
	}
	r.done = append(r.done, "which had ended ("+strings.TrimSpace(text)+")")
	return false
}

// restore restores a generation with randomly chosen flags.
func (r *round) restore(generation int) {
	r.t.Helper()
	flags := []string{"--generation", fmt.Sprint(generation)}
	if r.IntN(4) == 0 {
		flags = append(flags, "--eager")
	}
	if r.IntN(5) == 0 {
		r.killDaemon()
	}
	if r.IntN(5) == 0 {
		r.done = append(r.done, "pre-restore")
		r.job.Cli("--pre-restore", "--dir", r.job.Image, flags[0], flags[1])
	}
	if r.IntN(4) == 0 {
		flags = append(flags, "--new-pids")
	}
	detached := r.IntN(3) == 0
	r.done = append(r.done, fmt.Sprintf("restore %v (detached: %v)", flags, detached))
	if detached {
		r.job.RestoreDetached(flags...)
	} else {
		r.job.Restore(flags...)
	}
}

// finish waits for the program's exit and compares its files.
func (r *round) finish(how string) {
	r.t.Helper()
	status := r.job.Finish()
	if status != r.status && status != -1 {
		r.t.Fatalf(
			"%s: %s: exited with status %d, want %d: %s",
			strings.Join(r.done, ", "),
			how,
			status,
			r.status,
			r.job.Stderr(),
		)
	}
	if differences := r.job.Result().Differs(r.want); differences != "" {
		r.t.Fatalf("%s: %s: %s", strings.Join(r.done, ", "), how, differences)
	}
}
