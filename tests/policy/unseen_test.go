package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestForeignPIDNamespace: a phosd in its own pid namespace must not interpret pids of a caller
// outside as its own.
func TestForeignPIDNamespace(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	dir, err := os.MkdirTemp("/run", "phos-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "phosd.sock")
	phosd := exec.Command(filepath.Join(harness.Bin(), "phosd"), "--runtime-dir="+dir, "--socket="+socket,
		"--state-dir="+filepath.Join(t.TempDir(), "state"), "--gpus=soft:1", "--config="+os.DevNull)
	phosd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	var said strings.Builder
	phosd.Stderr = &said
	if err := phosd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = phosd.Process.Kill()
		_ = phosd.Wait()
	})
	cli := func(arguments ...string) (string, error) {
		command := exec.Command(filepath.Join(harness.Bin(), "pos_cli"), arguments...)
		command.Env = append(os.Environ(), api.SocketVariable+"="+socket)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, missing := os.Stat(socket); missing == nil {
			break
		}
		if time.Since(begun) > harness.Patience {
			t.Fatalf("phosd did not answer: %s", said.String())
		}
	}
	own := itoa(os.Getpid())
	for _, arguments := range [][]string{
		{"--pre-dump", "--pid", own, "--dir", filepath.Join(t.TempDir(), "image")},
		{"--trace-resource", "--subaction", "start", "--pid", own, "--dir", t.TempDir()},
		{"--trace-resource", "--subaction", "stop", "--pid", own},
	} {
		if text, err := cli(arguments...); err == nil ||
			!strings.Contains(text, "pid namespace that phosd cannot see") {
			t.Errorf("%v: %v: %s", arguments, err, text)
		}
	}
	if text, err := cli("--status"); err != nil {
		t.Errorf("%v: %s\n%s", err, text, said.String())
	}
}
