package checkpoint

import (
	"fmt"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// start is a phosd whose GPU does everything in one order.
func start(t *testing.T, arguments ...string) *lab.Daemon {
	t.Helper()
	_, err := lab.CRIU()
	lab.Need(t, "criu", err)
	return lab.Start(t, append([]string{"--gpus=soft:1,deterministic"}, arguments...)...)
}

// generations of the jobs' images.
const generations = 3

// TestKilledAndRestored saves a program while it runs, kills it, and brings it back from every generation.
func TestKilledAndRestored(t *testing.T) {
	daemon := start(t)
	program := lab.CompileC(t, true, lab.Workload("checkpoint", "count.c"))
	want, status := undisturbed(daemon.Job(t, program, "60", "20000", "0"))
	for _, stop := range []bool{false, true} {
		t.Run(map[bool]string{false: "pre-dump", true: "dump"}[stop], func(t *testing.T) {
			job := daemon.Job(t, program, "60", "20000", "10000")
			job.Held = true
			job.Start()
			for n := range generations {
				job.Reaches(n*10 + 5)
				if stop {
					t.Log(job.Dump())
					job.RestoreDetached()
				} else {
					t.Log(job.PreDump())
				}
			}
			job.Reaches(40)
			job.Kill()
			same(t, job, want, status)
		})
	}
	daemon.Empty()
}

// undisturbed is what a job leaves that nobody disturbs.
func undisturbed(job *lab.Job) (lab.Result, int) {
	status := job.Start().Finish()
	return job.Result(), status
}

// same restores every generation of a job's image and compares what it leaves. The oldest is the last one.
func same(t *testing.T, job *lab.Job, want lab.Result, status int) {
	t.Helper()
	for n := generations; n > 0; n-- {
		job.Restore("--generation", fmt.Sprint(n))
		if got := job.Finish(); got != status {
			t.Fatalf("generation %d ends with status %d, want %d: %s", n, got, status, job.Said())
		}
		if differences := job.Result().Differs(want); differences != "" {
			t.Fatalf("generation %d: %s", n, differences)
		}
	}
}
