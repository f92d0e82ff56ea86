package hostile

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, err := range []error{os.Chown(path, 0, 0), os.Chmod(path, 0o4755)} {
		if err != nil {
			u.t.Fatal(err)
		}
	}
	return path
}

// secret is what risen.c holds in its memory.
var secret = []byte("RECRET:OF:ROOT:5f2d8")

// containsSecret returns a file below a directory that holds the secret, or "".
func containsSecret(t *testing.T, dir string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, secret) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBecomesRootBeforeFreeze: a program executes a setuid program after phosd has inspected it and
// before it is frozen. Its image must not hold root's memory.
func TestBecomesRootBeforeFreeze(t *testing.T) {
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
	var said bytes.Buffer
	dump.Stdout, dump.Stderr = &said, &said
	if err := dump.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the image is begun", func() bool { return exists(filepath.Join(image, "packs")) })
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
	if path := containsSecret(t, image); path != "" {
		t.Errorf("%s holds root's memory", path)
	}
	if err := program.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program does not run: %v", err)
	}
}
