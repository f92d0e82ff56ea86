package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// TestNothingLeft: whatever processes do to stay, none does. Each script makes some that ignore
// SIGTERM, and prints ready.
func TestNothingLeft(t *testing.T) {
	const stubborn = "trap '' TERM HUP INT; while :; do sleep 1000; done"
	for name, script := range map[string]string{
		"ignores-TERM":   "echo ready; " + stubborn,
		"child":          "sh -c \"" + stubborn + "\" & echo ready; " + stubborn,
		"own-session":    "setsid sh -c \"" + stubborn + "\" & echo ready; " + stubborn,
		"daemon":         "(setsid sh -c \"" + stubborn + "\" &) ; echo ready; " + stubborn,
		"daemon-alone":   "(setsid sh -c \"" + stubborn + "\" > /dev/null 2>&1 &) ; echo ready",
		"daemon-failed":  "(setsid sh -c \"" + stubborn + "\" &) ; echo ready; exit 1",
		"stopped":        "sh -c 'kill -STOP $$; sleep 1000' & echo ready; trap '' TERM; kill -STOP $$",
		"fork-bomb":      "bomb() { sh -c '" + stubborn + "' & bomb & bomb; }; trap '' TERM; echo ready; bomb 2>/dev/null; sleep 1000",
		"always-another": "trap '' TERM; echo ready; next() { (next &) ; }; next 2>/dev/null; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, script)
			f.spec.Limits.Pids = 200
			f.spec.Grace = 50 * time.Millisecond
			f.start()
			f.says("0 out ready")
			if err := f.Stop(f.patient(), 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			f.end()
		})
	}
}

// TestFrozen: frozen processes, and those in cgroups below, are killed.
func TestFrozen(t *testing.T) {
	f := newFixture(t, "trap '' TERM; sleep 1000 & echo $! > $HERE/child; echo ready; sleep 1000")
	f.start()
	f.says("0 out ready")
	group := f.group()
	below := filepath.Join(group, "phos.frozen", "deeper")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Put(below, f.pidIn("child")); err != nil {
		t.Fatal(err)
	}
	f.freeze(below, "1")
	f.freeze(group, "1")
	if err := f.Stop(f.patient(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, killed+", stopped")
}

// TestMovedOut: a process that root has moved into another cgroup ends, too.
func TestMovedOut(t *testing.T) {
	f := newFixture(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	f.start()
	f.says("0 out ready")
	elsewhere := f.group() + "-elsewhere"
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(elsewhere) })
	if err := cgroup.Put(elsewhere, f.started().Processes[0].PID); err != nil {
		t.Fatal(err)
	}
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Killed, killed+", stopped")
}

// TestPipeOutside: output that a process outside of the attempt holds open does not keep it from
// ending.
func TestPipeOutside(t *testing.T) {
	f := newFixture(t, "echo ready; read line < $HERE/go")
	if err := unix.Mkfifo(filepath.Join(f.root, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.says("0 out ready")
	pid := f.started().Processes[0].PID
	held, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(pid), "fd/1"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.WriteFile(filepath.Join(f.root, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Completed, succeeded)
	f.eventually("the pipe is closed", func() bool {
		_, err := held.WriteString("late\n")
		return errors.Is(err, unix.EPIPE)
	})
}
