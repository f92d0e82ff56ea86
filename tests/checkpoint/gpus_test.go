package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestOtherGPUs takes an image to machines with other GPUs. Both "image check" and a restore must
// name the obstacle before any process starts, and leave the image usable. In the end the program
// is restored on another model with enough memory, one of two GPUs.
func TestOtherGPUs(t *testing.T) {
	daemon := start(t, "--gpus=soft:1,deterministic,memory=128MiB,cc=8.0,name=Example 80")
	program := harness.CompileC(t, true, forNewerGPU(t, harness.Workload("checkpoint", "count.c")))
	const elements = "5000000" // 20 MB
	want, status := runUndisturbed(daemon.Job(t, program, "6", elements, "0"))
	job := daemon.Job(t, program, "6", elements, "10000")
	job.Hold = true
	job.Start().WaitLines(3)
	job.Dump()

	const whole = 34
	needs := 22
	if harness.Nested() {
		needs = 20 // the size of the program's code depends on the driver
	}
	for _, test := range []struct{ name, gpus, says string }{
		{
			"older", "soft:1,cc=7.0,name=Old", `GPU 0: module 1 \(kernel step\) does not run on it: it is PTX for compute_80; here is Old, of compute capability 7\.0, ` +
				`and pid \d+ was started on Example 80, of 8\.0(;| \() ?restore `,
		},
		{
			"too small", "soft:1,cc=8.0,memory=16MiB", fmt.Sprintf(`GPU 0: the image needs %d MiB of its memory, and 16 MiB of 16 MiB are free `+
				`\(phos software GPU\)(;| \() ?restore on a GPU with more memory`, needs),
		},
	} {
		t.Run(test.name, func(t *testing.T) { refusedBy(t, harness.Start(t, "--gpus="+test.gpus), job, test.says) })
	}

	other := start(t, fmt.Sprintf("--gpus=soft:2,deterministic,memory=%dMiB,cc=9.0,name=Example 90", whole))
	t.Run("taken", func(t *testing.T) {
		holder := other.Job(t, program, "6", elements, "10000")
		holder.Hold = true
		holder.Start().WaitLines(1)
		refusedBy(
			t,
			other,
			job,
			fmt.Sprintf(
				`GPU 0: the image needs %d MiB of its memory, and %d MiB of %d MiB are free \(Example 90\)(;| \() ?`+
					`end other programs that use it, .*pos_cli --status`,
				needs,
				whole-needs,
				whole,
			),
		)
		holder.Kill()
		other.Empty()
	})
	daemon.Empty()
	job.Move(other)
	job.Restore()
	job.FinishLike(t, "restored", want, status)
	other.Empty()
}

// forNewerGPU returns the source of a program whose code is for capability 8.0 and later.
func forNewerGPU(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(
		".target sm_70",
		".target sm_80",
		`"../driver/`,
		`"`+filepath.Join(filepath.Dir(path), "../driver")+"/",
		`"hold.h"`,
		`"`+filepath.Join(filepath.Dir(path), "hold.h")+`"`,
	).Replace(
		string(text),
	)
	source := filepath.Join(t.TempDir(), "later.c")
	if err := os.WriteFile(source, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	return source
}

// refusedBy checks that a daemon cannot restore an image, for the given reason.
func refusedBy(t *testing.T, daemon *harness.Daemon, job *harness.Job, reason string) {
	t.Helper()
	for _, command := range [][]string{{"image", "check", job.Image}, {"--restore", "--dir", job.Image}} {
		output, err := daemon.Command(append(command, "--trust-seal")...).CombinedOutput()
		if err == nil || !regexp.MustCompile(reason).Match(output) {
			t.Errorf("%v: %v, want %s:\n%s", command, err, reason, output)
		}
		t.Logf("%s", output)
	}
}
