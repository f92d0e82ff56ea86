package runner

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDenyWrites: phosd's limit reaches a CRIU of another user too, without CAP_SYS_RESOURCE.
func TestDenyWrites(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, user := range []User{{}, {UID: 61234, GID: 61235}} {
		command := exec.Command("sleep", "1000")
		command.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: user.UID, Gid: user.GID}, Pdeathsig: syscall.SIGKILL,
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		err := DenyWrites(command.Process.Pid, user)
		var limit unix.Rlimit
		if read := unix.Prlimit(command.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit); read != nil && user.UID == 0 {
			t.Error(read)
		}
		if err != nil || user.UID == 0 && limit.Cur != 0 {
			t.Errorf("user %d: %v, limit %d, want 0", user.UID, err, limit.Cur)
		}
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}
