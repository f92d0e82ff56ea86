package guard

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// phosdVariable makes the test binary a phosd of few words: it guards what the variables say, and
// waits to be killed.
const (
	phosdVariable = "PHOS_GUARD_TOP"
	listVariable  = "PHOS_GUARD_DEVICES"
	pinVariable   = "PHOS_GUARD_PIN"
)

func TestMain(m *testing.M) {
	if top := os.Getenv(phosdVariable); top != "" {
		if err := guardUntilKilled(top); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func guardUntilKilled(top string) error {
	made, err := Open((&ground{top: top, devices: os.Getenv(listVariable)}).options(io.Discard))
	if err != nil {
		return err
	}
	if err := made.Begin(); err != nil {
		return err
	}
	if pin := os.Getenv(pinVariable); pin != "" {
		if err := made.attached.Pin(pin); err != nil {
			return err
		}
	}
	worker := exec.Command("sleep", "1000")
	made.Enter(worker)
	if err := worker.Start(); err != nil {
		return err
	}
	_, _ = os.Stdout.WriteString("begun\n")
	select {}
}

// phosd starts one and waits until it guards.
func (g *ground) phosd(pin string) *exec.Cmd {
	g.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), phosdVariable+"="+g.top, listVariable+"="+g.devices, pinVariable+"="+pin)
	out, err := command.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = command.Process.Kill() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "begun\n" {
		_ = command.Wait()
		if strings.Contains(line, ErrForbidden.Error()) {
			g.t.Skip(line)
		}
		g.t.Fatal(line)
	}
	return command
}

// kill ends one as kill -9 does.
func kill(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait() // by the signal
}

// TestKilled checks that a killed phosd guards no longer, and that the next one removes its room;
// the processes in it go on.
func TestKilled(t *testing.T) {
	g := newGround(t)
	first := g.phosd("")
	g.expect("while it runs", g.in(g.outside, reading(g.null)), refused)
	second := g.open(io.Discard)
	if err := second.Begin(); !errors.Is(err, ErrTaken) {
		t.Errorf("a second guard: %v, want ErrTaken", err)
	}
	kill(first)
	g.expect("once it is killed", g.in(g.outside, reading(g.null)), "")
	worker := g.left(1, second.room)
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	g.left(0, second.room)
	if where, err := cgroup.Of(worker); err != nil || where != g.top {
		t.Errorf("its worker is in %s, %v; want %s", where, err, g.top)
	}
	g.begin(second)
	g.expect("the next one", g.in(g.outside, reading(g.null)), refused)
	if err := errors.Join(second.Close(), unix.Kill(worker, unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
}

// left counts rooms besides one, and finds the process in the last.
func (g *ground) left(want int, besides string) (worker int) {
	g.t.Helper()
	rooms, err := filepath.Glob(filepath.Join(g.top, "phos.gpus.*"))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, room := range rooms {
		if room == besides {
			continue
		}
		want--
		if pids, err := cgroup.Processes(room); err != nil || len(pids) != 1 {
			g.t.Errorf("in %s are %v, %v; want one worker", room, pids, err)
		} else {
			worker = pids[0]
		}
	}
	if want != 0 {
		g.t.Errorf("rooms %v", rooms)
	}
	return worker
}

// TestPinned checks that a pinned program outlives its phosd, and that the next one detaches it.
func TestPinned(t *testing.T) {
	g := newGround(t)
	pins := t.TempDir()
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Skip("needs a file system for pins:", err)
	}
	defer func() {
		if err := unix.Unmount(pins, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	first := g.phosd(filepath.Join(pins, "guard"))
	kill(first)
	g.expect("pinned", g.in(g.outside, reading(g.null)), refused)
	worker := g.left(1, "")
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	g.expect("swept", g.in(g.outside, reading(g.null)), "")
	if err := unix.Kill(worker, unix.SIGKILL); err != nil {
		t.Error(err)
	}
}
