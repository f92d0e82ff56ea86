package checkpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// otherFileSystems are file systems that the tests do not run on.
var otherFileSystems = []struct {
	name string
	// place mounts the file system for the image; copy copies the image to where it is restored
	// from.
	place func(t *testing.T, path string)
	copy  func(t *testing.T, from, to string)
}{
	{"tmpfs", func(t *testing.T, path string) { mountFor(t, "phos-test", path, "tmpfs", 0, "size=256m") }, nil},
	{"overlay", func(t *testing.T, path string) {
		below := t.TempDir()
		mountFor(t, "phos-test", below, "tmpfs", 0, "size=256m")
		for _, sub := range []string{"lower", "upper", "work"} {
			if err := os.Mkdir(filepath.Join(below, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mountFor(
			t,
			"overlay",
			path,
			"overlay",
			0,
			"lowerdir="+below+"/lower,upperdir="+below+"/upper,workdir="+below+"/work",
		)
	}, nil},
	{"read-only copy", nil, func(t *testing.T, from, to string) {
		shell(t, `cp -r --sparse=never "$0/." "$1"`, from, to)
		mountFor(t, to, to, "", unix.MS_BIND, "")
		mountFor(t, "", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}},
	{"tar", nil, func(t *testing.T, from, to string) {
		shell(t, `tar -C "$0" -cf - . | tar -C "$1" -xf -`, from, to)
	}},
}

// TestImageOnOtherFileSystems saves a program onto various file systems. It is restored from copies
// of the image and from read-only mounts.
func TestImageOnOtherFileSystems(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "100", "20000", "0"))
	for _, test := range otherFileSystems {
		t.Run(test.name, func(t *testing.T) {
			job := daemon.Job(t, program, "100", "20000", "20000")
			job.Hold = true
			if err := os.Mkdir(job.Image, 0o700); err != nil {
				t.Fatal(err)
			}
			if test.place != nil {
				test.place(t, job.Image)
			}
			job.Start()
			job.WaitLines(5)
			job.PreDump()
			job.WaitLines(8)
			t.Log(job.PreDump())
			job.Kill()
			if test.copy != nil {
				to := t.TempDir()
				test.copy(t, job.Image, to)
				shell(t, `mv "$0" "$1"`, job.Image, job.Image+".original")
				job.Image = to
			}
			t.Log(
				job.Cli("image", "list", job.Image),
				job.Cli("image", "verify", job.Image),
				job.Cli("image", "check", job.Image),
			)
			for _, n := range []string{"2", "1"} {
				job.Restore("--generation", n)
				job.FinishLike(t, "generation "+n, want, status)
			}
			if test.name == "read-only copy" {
				return
			}
			t.Log(job.Cli("image", "prune", job.Image, "--keep", "1"), job.Cli("--clean", "--dir", job.Image))
			if left, err := os.ReadDir(job.Image); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	daemon.Empty()
}

// TestCleanedWhileLoading removes an image after a restore while memory is still being loaded.
func TestCleanedWhileLoading(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "40", "1000000", "0"))
	job := daemon.Job(t, program, "40", "1000000", "0")
	job.Hold = true
	job.Start()
	job.WaitLines(3)
	job.PreDump()
	job.Kill()
	job.Cli("--pre-restore", "--dir", job.Image)
	if said, err := job.TryCli("--clean", "--dir", job.Image); err == nil || !strings.Contains(said, "in use by") {
		t.Errorf("while a restore uses the image: %s, %v", said, err)
	}
	job.Cli("--pre-restore", "--cancel", "--dir", job.Image)
	job.Restore()
	said, err := job.TryCli("--clean", "--dir", job.Image)
	t.Log(said, err)
	if err != nil && !strings.Contains(said, "in use by") {
		t.Error(said, err)
	}
	job.FinishLike(t, "restored", want, status)
	if err != nil {
		job.Cli("--clean", "--dir", job.Image)
	}
	if left, err := os.ReadDir(job.Image); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	daemon.Empty()
}

// mountFor mounts a file system until the end of the test.
func mountFor(t *testing.T, source, path, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, path, kind, flags, data); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	if flags&unix.MS_REMOUNT == 0 {
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
}

func shell(t *testing.T, command string, arguments ...string) {
	t.Helper()
	if output, err := exec.Command(
		"bash", append([]string{"-ec", command}, arguments...)...,
	).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, output)
	}
}
