package checkpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestClosedProgram: a program that is not dumpable shares its memory with kernels. A program of
// root is saved and restored. CRIU may not read the memory of another user's program, so its
// checkpoint is refused with the reason, and the program continues.
func TestClosedProgram(t *testing.T) {
	const user = 61237
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "segments.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "20", "20000"))
	t.Run("root", func(t *testing.T) {
		job := daemon.Job(t, program, "20", "20000", "closed")
		job.Hold = true
		job.Start().WaitLines(3)
		job.Dump()
		job.Restore()
		job.FinishLike(t, "restored", want, status)
	})
	t.Run("user", func(t *testing.T) {
		job := daemon.Job(t, program, "20", "20000", "closed")
		above := filepath.Dir(job.Dir)
		if err := errors.Join(
			os.Chmod(filepath.Dir(above), 0o755), os.Chmod(above, 0o755), os.Chown(job.Dir, user, user),
		); err != nil {
			t.Fatal(err)
		}
		job.Hold = true
		job.Prepare = func(command *exec.Cmd) {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		}
		job.Start().WaitLines(3)
		for _, verb := range []string{"--pre-dump", "--dump"} {
			said, err := job.TryCli(verb, "--dir", job.Image, "--pid", strconv.Itoa(job.PID))
			if err == nil || !strings.Contains(said, "is not dumpable") {
				t.Errorf("%s: %v: %s", verb, err, said)
			}
		}
		job.FinishLike(t, "refused", want, status)
	})
	daemon.Empty()
}
