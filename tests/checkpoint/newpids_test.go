package checkpoint

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestNewPIDs repeatedly saves programs that were restored in their own pid namespace. The images
// are restored in another namespace and without one.
func TestNewPIDs(t *testing.T) {
	daemon := start(t)
	for _, s := range subjects {
		if !slices.Contains([]string{"family", "numba"}, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			program := s.program(t)
			want, status := runUndisturbed(s.job(t, daemon, program, 0))
			job := s.job(t, daemon, program, 10*time.Millisecond)
			job.Hold = true
			job.Start()
			job.WaitLines(s.slowSteps + 3)
			job.PreDump()
			job.Kill()
			job.Restore("--new-pids")
			job.WaitLines(s.slowSteps + 6)
			job.Dump()
			job.RestoreDetached("--new-pids", "--eager")
			job.WaitLines(s.slowSteps + 9)
			job.PreDump()
			job.Kill()
			job.Restore()
			for n := generations + 1; n > 0; n-- {
				if n <= generations {
					job.Restore("--new-pids", "--generation", fmt.Sprint(n))
				}
				job.FinishLike(t, fmt.Sprint("generation ", n), want, status)
			}
		})
	}
	daemon.Empty()
}
