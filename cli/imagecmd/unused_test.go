package imagecmd

import (
	"os"
	"os/exec"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

// TestHasEnded: a program that phosd lists may have ended. One whose pid cannot be seen from here
// has not, as far as this process knows.
func TestHasEnded(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]bool{ended.Process.Pid: true, os.Getpid(): false, 0: false} {
		if got := hasEnded(&api.Program{Pid: uint32(pid)}); got != want {
			t.Errorf("pid %d: got %v, want %v", pid, got, want)
		}
	}
}
