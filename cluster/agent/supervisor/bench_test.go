package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// reached makes a FIFO, and returns a function that waits until a process has opened it.
func reached(b *testing.B, dir string) (fifo string, wait func()) {
	b.Helper()
	fifo = filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		b.Fatal(err)
	}
	return fifo, func() {
		file, err := os.Open(fifo)
		if err != nil {
			b.Fatal(err)
		}
		_ = file.Close()
	}
}

// BenchmarkForkExec is what BenchmarkStart is compared with: from fork to the first lines of a
// shell.
func BenchmarkForkExec(b *testing.B) {
	fifo, wait := reached(b, b.TempDir())
	for b.Loop() {
		command := exec.Command("/bin/sh", "-c", ": > "+fifo)
		if err := command.Start(); err != nil {
			b.Fatal(err)
		}
		wait()
		b.StopTimer()
		_ = command.Wait()
		b.StartTimer()
	}
}

// BenchmarkStart is the time from Start to the first lines of a shell, and what a supervisor takes
// of memory.
func BenchmarkStart(b *testing.B) {
	harness.Need(b, "root", harness.Root())
	root := b.TempDir()
	fifo, wait := reached(b, root)
	spec := Spec{Key: Key{"bench", 0, 0}, CgroupParent: parentCgroup}
	spec.Processes = []Process{{Command: []string{"/bin/sh", "-c", ": > " + fifo + "; read line"}, Directory: "/"}}
	spec.Processes = []Process{{Command: []string{"/bin/sh", "-c", ": > " + fifo + "; exec sleep 1000"}, Directory: "/"}}
	var resident uint64
	for b.Loop() {
		spec.Key.Attempt++
		attempt, err := Start(b.Context(), root, spec)
		if err != nil {
			b.Fatal(err)
		}
		wait()
		b.StopTimer()
		status, err := attempt.Started(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		now, err := proc.ReadStatus(status.Supervisor.PID)
		if err != nil {
			b.Fatal(err)
		}
		resident = now.ResidentBytes
		if err := attempt.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := attempt.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(resident)/(1<<20), "MiB/supervisor")
}
