package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// victim is the process that is killed while a step is held up.
type victim struct {
	name string
	// command is what its command line has in it.
	command string
	// from and to are the first and the last step at which it is there; empty: all.
	from, to string
	// fatal: the program dies of it.
	fatal bool
}

var saveVictims = []victim{
	{"worker", "phosd worker ", "", "", true},
	{"program", " enough", "", "", true},
	{"watchdog", "/proc/self/exe watchdog", "cut", "go-on", false},
	{"pos_cli", "/pos_cli --", "", "", false},
}

var bringVictims = []victim{
	{"worker", "phosd worker ", "ready", "", true},
	{"program", " enough", "attach", "", true},
	{"keeper", "/proc/self/exe keeper", "attach", "", true},
	{"pos_cli", "/pos_cli --", "", "", false},
}

// at are the steps at which a victim is there.
func (v victim) at(steps []string) []string {
	steps = slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return step == "publish" })
	from, to := 0, len(steps)
	if v.from != "" {
		from = slices.Index(steps, v.from)
	}
	if v.to != "" {
		to = slices.Index(steps, v.to) + 1
	}
	return chosen(steps[from:to], len(v.name))
}

// chosen are all of some steps, or half of them where not everything shall be tried.
func chosen(steps []string, which int) (some []string) {
	for i, step := range steps {
		if full() || i%2 == which%2 {
			some = append(some, step)
		}
	}
	return some
}

// noDaemon is the exit status of pos_cli that finds no phosd.
const noDaemon = 3

// held starts a command of pos_cli that is held up at a step, kills the victim there, and returns
// how the command ends when it continues.
func (r *room) held(step string, who victim, command *exec.Cmd) (string, error) {
	r.t.Helper()
	goOn := r.heldUp(step)
	from := r.logged()
	done := make(chan error, 1)
	var output []byte
	go func() {
		var err error
		output, err = command.CombinedOutput()
		done <- err
	}()
	r.reaches(from, step)
	pid := r.find(who.command)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(func() string { return describe(pid) })
	if who.name == "pos_cli" {
		// phosd hears of that by its connection, and gives the step up then, unless it is past being
		// given up.
		r.says(from, fmt.Sprintf("caller disconnected.* caller=%d ", pid))
	}
	goOn()
	err := r.await(done)
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == noDaemon {
		r.t.Errorf("it takes the end of another process for phosd's: %s", output)
	}
	return string(output), err
}

// TestCallersStay: phosd does not report that a caller has gone when the caller has its answer.
func TestCallersStay(t *testing.T) {
	r := newRoom(t)
	from := r.logged()
	for range 5 {
		r.job.PreDump()
		r.job.Dump()
		r.job.Restore()
		r.job.Dump()
		r.restore()
	}
	r.ends()
	r.tidy(0, 0)
	if text := read(t, r.daemon.Log); strings.Contains(text[from:], "caller disconnected") {
		t.Error("the log says that a caller has gone")
	}
}

// TestSaveVictims kills, at each step of a checkpoint, each process that takes part in it except
// phosd.
func TestSaveVictims(t *testing.T) {
	for _, who := range saveVictims {
		t.Run(who.name, func(t *testing.T) {
			r := newRoom(t)
			r.job.PreDump()
			for i, step := range who.at(ckpt.SaveSteps()) {
				t.Run(step, func(t *testing.T) { r.in(t).saveLoses(step, who, i%2 == 1) })
				if t.Failed() {
					return
				}
			}
			r.ends()
			r.tidy(0, 0)
		})
	}
}

// saveLoses kills a victim during a checkpoint.
func (r *room) saveLoses(step string, who victim, stop bool) {
	before := r.snapshot()
	verb := map[bool]string{false: "--pre-dump", true: "--dump"}[stop]
	text, err := r.held(step, who, r.daemon.Command(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
	dead := who.fatal || stop && (err == nil || who.name == "pos_cli" && complete(step))
	if dead {
		r.job.Finish()
		r.tidy(0, 0)
	} else {
		r.runsOn()
		r.alone()
	}
	switch {
	case err == nil || complete(step):
		r.grown(before)
	default:
		r.unchanged(before, false)
	}
	r.t.Logf("stop %v: %v: %s", stop, err, text)
	if dead {
		r.restore()
	}
	r.job.PreDump()
	r.verified()
}

// TestRestoreVictims kills, at each step of a restore, each process that takes part in it except
// phosd.
func TestRestoreVictims(t *testing.T) {
	for _, who := range bringVictims {
		t.Run(who.name, func(t *testing.T) {
			r := newRoom(t)
			r.job.Dump()
			r.tidy(0, 0)
			for _, step := range who.at(ckpt.BringSteps()) {
				t.Run(step, func(t *testing.T) { r.in(t).restoreLosesVictim(step, who) })
				if t.Failed() {
					return
				}
			}
			r.job.Restore()
			r.ends()
			r.tidy(0, 0)
		})
	}
}

// restoreLosesVictim kills it during a restore.
func (r *room) restoreLosesVictim(step string, who victim) {
	before := r.snapshot()
	text, err := r.held(step, who, r.daemon.Command("--restore", "--dir", r.job.Image))
	if err == nil {
		r.t.Errorf("the restore succeeds: %s", text)
	}
	r.t.Logf("%v: %s", err, text)
	r.tidy(0, 0)
	r.unchanged(before, false)
	r.free()
	r.restore()
	r.runsOn()
	r.job.Dump()
	r.tidy(0, 0)
}
