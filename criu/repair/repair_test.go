package repair

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// standing starts a process that can be traced, and stops it.
func standing(t *testing.T) int {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: writes into another process")
	}
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	pid := command.Process.Pid
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil &&
			bytes.Contains(text, []byte("nanosleep")) {
			break
		}
		if time.Now().After(end) {
			t.Skip("cannot observe where it sleeps")
		}
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	becomes(t, pid, "stopped", func(stat *proc.Stat) bool { return stat.State == 'T' })
	return pid
}

// becomes waits until a process is in some state or has ended.
func becomes(t *testing.T, pid int, what string, so func(*proc.Stat) bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if stat, err := proc.ReadStat(pid); err != nil || so(stat) {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("pid %d did not become %s", pid, what)
		}
	}
}

// TestRepair does what CRIU does before it dies, and checks that Repair undoes it.
func TestRepair(t *testing.T) {
	pid := standing(t)
	before, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	one := &before.processes[0]
	if err := one.withMemory(os.O_RDWR, func(memory *os.File) (int, error) {
		return memory.WriteAt([]byte("\x0f\x05\xcc\xcc\xcc\xcc\xcc\xccCRIUMFD\x00"), int64(one.Start))
	}); err != nil {
		t.Fatal(err)
	}
	if err := whileStopped(pid, func() error { return setBlocked(pid, parasiteMask) }); err != nil {
		t.Fatal(err)
	}
	if status, err := proc.ReadStatus(pid); err != nil || status.Blocked != parasiteMask {
		t.Fatalf("blocked %#x: %v", status.Blocked, err)
	}
	if err := before.Repair(); err != nil {
		t.Fatal(err)
	}
	after, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if got := after.processes[0]; !bytes.Equal(got.Code, one.Code) || got.Blocked[pid] != one.Blocked[pid] {
		t.Errorf("code % x, blocked %#x; want % x, %#x", got.Code, got.Blocked[pid], one.Code, one.Blocked[pid])
	}
	if inside, err := after.Inside(); err != nil || inside {
		t.Errorf("inside %v: %v", inside, err)
	}
}

// TestRepairEnded: a process that did not survive is reported.
func TestRepairEnded(t *testing.T) {
	pid := standing(t)
	before, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	becomes(t, pid, "a zombie", (*proc.Stat).Zombie)
	if err := before.Repair(); !errors.Is(err, ErrEnded) {
		t.Errorf("got error %v", err)
	}
}

// TestStored: a snapshot that is kept with a cgroup is as it was, however long it is, until it is
// forgotten.
func TestStored(t *testing.T) {
	dir, err := cgroup.Top()
	if err != nil || os.Getuid() != 0 {
		t.Skipf("needs root and cgroups: %v", err)
	}
	dir = filepath.Join(dir, fmt.Sprintf("phos-stored-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	want := &Snapshot{}
	for i := range 3 {
		one := processSnapshot{Identity: proc.Identity{PID: i + 1, StartTicks: 7}, Start: 1 << 40, Code: []byte{1, 2, 3}}
		one.Blocked = make(map[int]uint64)
		for thread := range 10000 {
			one.Blocked[thread] = uint64(i * thread)
		}
		want.processes = append(want.processes, one)
	}
	if got, err := Stored(dir); got != nil || err != nil {
		t.Fatalf("before: %v, %v", got, err)
	}
	for _, s := range []*Snapshot{want, {processes: want.processes[:1]}} {
		if err := s.Store(dir); errors.Is(err, unix.EPERM) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		if got, err := Stored(dir); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%d processes, stored another snapshot: %v", len(s.processes), err)
		}
	}
	if err := Forget(dir); err != nil {
		t.Error(err)
	}
	if got, err := Stored(dir); got != nil || err != nil {
		t.Errorf("after: %v, %v", got, err)
	}
}
