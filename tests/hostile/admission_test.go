package hostile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/tests/harness"
)

// risen compiles the setuid program of root into the user's home directory.
func (u *user) risen() string {
	u.t.Helper()
	path := u.file("risen")
	source := harness.Workload("hostile", "risen.c")
	if text, err := exec.Command("cc", "-O1", "-o", path, source).CombinedOutput(); err != nil {
		u.t.Fatal(err, string(text))
	}
	for _, err := range []error{os.Chown(path, 0, 0), os.Chmod(path, 0o755|os.ModeSetuid)} {
		if err != nil {
			u.t.Fatal(err)
		}
	}
	return path
}

// TestBecomesRootBeforeFreeze: a program executes a setuid program after phosd has inspected it and
// before it is frozen. Its image must not hold root's memory.
func TestBecomesRootBeforeFreeze(t *testing.T) {
	t.Run("saved by its user", func(t *testing.T) { becomesRoot(t, false, "another user's") })
	// What was prepared for the checkpoint belongs to the user.
	t.Run("saved by root", func(t *testing.T) { becomesRoot(t, true, "has become another user") })
}

// becomesRoot saves a program that becomes root between inspection and freeze. says is the refusal.
func becomesRoot(t *testing.T, byRoot bool, says string) {
	proceed, a := filepath.Join(t.TempDir(), "go"), alice(t)
	d := start(t)
	d.Kill()
	d.Relaunch(ckpt.FailpointsVariable + "=freeze=until:" + proceed)
	program := background(t, a.python(d, `
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: os.execv(sys.argv[1], sys.argv[1:]))
open("ready", "w").close()
while True: signal.pause()
`, a.risen(), a.file("risen-ready")))
	waitFor(t, "the program runs", func() bool { return exists(a.file("ready")) })
	image := a.file("image")
	dump := a.cli(d, "--dump", "--dir", image, "--pid", pid(program))
	if byRoot {
		dump = d.Command("--dump", "--dir", image, "--pid", pid(program))
	}
	var said bytes.Buffer
	dump.Stdout, dump.Stderr = &said, &said
	if err := dump.Start(); err != nil {
		t.Fatal(err)
	}
	d.LogContains("msg=step name=quiesce")
	if err := program.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program is root", func() bool { return exists(a.file("risen-ready")) })
	if err := os.WriteFile(proceed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dump.Wait(); err == nil {
		t.Errorf("the dump succeeded: %s", said.String())
	}
	if kept, _ := os.ReadDir(filepath.Join(image, "generations")); len(kept) > 0 {
		t.Errorf("the image has generations %v", kept)
	}
	if !strings.Contains(said.String(), says) {
		t.Errorf("the refusal is %q", said.String())
	}
	if err := program.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program does not run: %v", err)
	}
}
