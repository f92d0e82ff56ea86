package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestRestoreAfterChanges restores programs after a change of the machine, the image or the
// program's files.
func TestRestoreAfterChanges(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	for _, test := range []struct {
		name    string
		happens func(t *testing.T, job *harness.Job, library string)
	}{
		{"phosd was killed", func(*testing.T, *harness.Job, string) {
			daemon.Kill()
			daemon.Launch()
		}},
		{"the machine was rebooted", func(*testing.T, *harness.Job, string) { daemon.Reboot() }},
		{"the image was copied", func(t *testing.T, job *harness.Job, _ string) {
			copied := filepath.Join(t.TempDir(), "copy")
			if output, err := exec.Command("cp", "-a", job.Image, copied).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if err := os.RemoveAll(job.Image); err != nil {
				t.Fatal(err)
			}
			job.Image = copied
		}},
		{"libphos.so was replaced", func(t *testing.T, _ *harness.Job, library string) {
			if err := os.WriteFile(library+".new", []byte("something else"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(library+".new", library); err != nil {
				t.Fatal(err)
			}
		}},
		{"libphos.so was removed", func(t *testing.T, _ *harness.Job, library string) {
			if err := os.Remove(library); err != nil {
				t.Fatal(err)
			}
		}},
		{"the files were removed", func(t *testing.T, job *harness.Job, _ string) {
			for _, name := range []string{"out", "err", "steps"} {
				if err := os.Remove(filepath.Join(job.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"the files were changed", func(t *testing.T, job *harness.Job, _ string) {
			for _, name := range []string{"out", "steps"} {
				if err := os.WriteFile(filepath.Join(job.Dir, name), []byte(strings.Repeat("x", 10000)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := daemon.Job(t, program, "60", "20000", "10000")
			library := checkpointWithLibrary(t, job)
			test.happens(t, job, library)
			job.Restore()
			job.FinishLike(t, "restored", want, status)
		})
	}
	daemon.Empty()
}

// TestUpgradedLibrary: libphos.so was replaced while the program ran. The program is saved with the
// one that it has loaded.
func TestUpgradedLibrary(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	job := daemon.Job(t, program, "60", "20000", "10000")
	library := startWithLibrary(t, job)
	if err := errors.Join(
		os.WriteFile(library+".new", []byte("something else"), 0o755), os.Rename(library+".new", library),
	); err != nil {
		t.Fatal(err)
	}
	job.Dump()
	job.Restore()
	job.FinishLike(t, "restored", want, status)
	daemon.Empty()
}

// checkpointWithLibrary starts a program with its own copy of libphos.so, and saves it.
func checkpointWithLibrary(t *testing.T, job *harness.Job) (library string) {
	t.Helper()
	library = startWithLibrary(t, job)
	job.Dump()
	return library
}

// startWithLibrary starts a program with its own copy of libphos.so, and returns the path of the
// copy.
func startWithLibrary(t *testing.T, job *harness.Job) (library string) {
	t.Helper()
	library = copyLibrary(t)
	job.Hold = true
	job.Prepare = func(command *exec.Cmd) {
		command.Env = append(command.Env, "LD_PRELOAD="+library)
	}
	job.Start().WaitLines(3)
	return library
}

func copyLibrary(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Bin(), "libphos.so"))
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "libphos.so")
	if err := os.WriteFile(library, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return library
}

// TestUnchangedProgram repeatedly saves a sleeping program. From the second time on almost nothing
// is written.
func TestUnchangedProgram(t *testing.T) {
	daemon := start(t)
	job := daemon.Job(t, harness.CompileC(t, true, harness.Workload("checkpoint", "states.c")), "asleep")
	job.Hold = true
	job.Start()
	job.WaitLine("now")
	var first, again struct {
		GPU   uint64 `json:"gpu_written_bytes"`
		Total uint64 `json:"written_bytes"`
	}
	for i, into := range []any{&first, &again, &again} {
		if err := json.Unmarshal([]byte(job.PreDump("--json")), into); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d: %+v", i+1, into)
	}
	// The program has one chunk of 2 MiB on the GPU. The worker's own state changes each time.
	if first.GPU < 2<<20 || again.GPU > 128<<10 || again.Total > first.Total/4 {
		t.Errorf(
			"first: %d bytes of the GPU half written, %d in total; then %d, %d",
			first.GPU,
			first.Total,
			again.GPU,
			again.Total,
		)
	}
	job.Kill()
	daemon.Empty()
}

// TestOtherFiles: a program or a library was replaced or removed. "image check" names it before any
// process starts, and so does a restore.
func TestOtherFiles(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	job := daemon.Job(t, program, "60", "20000", "10000")
	job.Hold = true
	job.Start().WaitLines(3)
	job.Dump()
	if said := job.Cli("image", "check", job.Image); !strings.Contains(said, "can be restored here") {
		t.Errorf("no obstacle was named: %s", said)
	}
	put := func(text []byte) {
		t.Helper()
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
		if text != nil {
			if err := os.WriteFile(program, text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, other := range map[string][]byte{"another": harness.ChangeBuildID(t, text), "none": nil} {
		put(other)
		for _, arguments := range [][]string{{"image", "check", job.Image}, {"--restore", "--detach", "--dir", job.Image}} {
			if said, err := job.TryCli(arguments...); err == nil ||
				!strings.Contains(said, strings.TrimPrefix(program, "/")) {
				t.Errorf("%s, %v: %v: %s", name, arguments, err, said)
			}
		}
		if other == nil {
			if err := os.WriteFile(program, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(text)
	job.Restore()
	if got := job.Finish(); got != 7 {
		t.Errorf("exited with status %d: %s", got, job.Stderr())
	}
	daemon.Empty()
}
