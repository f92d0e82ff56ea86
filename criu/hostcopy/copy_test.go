package hostcopy

import (
	"os"
	"os/exec"
	"testing"

	"github.com/phos-gpu/phos/criu/imagefile"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// openFiles returns how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestGone: a process that has ended is not copied, and everything that was opened is closed: its
// descriptor, those of the others, and the files.
func TestGone(t *testing.T) {
	program := exec.Command("true")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	gone, err := proc.Of(program.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = program.Wait()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	before := openFiles(t)
	var processes []Process
	for inner := 1; inner <= 3; inner++ {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		processes = append(processes, Process{Identity: gone, Inner: inner, Userfaultfd: null})
	}
	copied, err := Copy(t.Context(), dir, processes)
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Release(); err != nil {
		t.Error(err)
	}
	if now := openFiles(t); now != before {
		t.Errorf("%d descriptors are open, %d before", now, before)
	}
	for _, name := range []string{imagefile.PagemapName(1), imagefile.PagesName(1)} {
		if _, err := os.Stat(dir.Name() + "/" + name); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if err := Discard(dir, 1); err != nil { // what is not there
		t.Error(err)
	}
}
