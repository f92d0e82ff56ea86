package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// copyImage copies an image as its user would.
func (u *user) copyImage(image, name string) string {
	u.t.Helper()
	to := u.file(name)
	if text, err := exec.Command("cp", "-a", image, to).CombinedOutput(); err != nil {
		u.t.Fatal(err, string(text))
	}
	return to
}

// TestUnknownSeal: root restores an image of a machine that it does not know. It must say so first.
func TestUnknownSeal(t *testing.T) {
	a, there := alice(t), start(t)
	image := a.readerImage(there)
	here := start(t)
	text, err := run(t, here.Command("--restore", "--new-pids", "--detach", "--dir", image))
	if err == nil || !strings.Contains(text, "unknown key") || !strings.Contains(text, "user 61241") ||
		!strings.Contains(text, "--trust-seal") {
		t.Errorf("root restored an image with an unknown seal, or was not told the key and the user: %v: %s", err, text)
	}
	if text, err := run(t, here.Command("image", "check", image)); err == nil || !strings.Contains(text, "unknown key") {
		t.Errorf("image check: %v: %s", err, text)
	}
	a.mustFail(here, []string{"--restore", "--new-pids", "--trust-seal", "--dir", image}, "not permitted")
	text, err = run(t, here.Command("--restore", "--new-pids", "--detach", "--trust-seal", "--dir", image))
	if err != nil || !strings.Contains(text, "unknown key") || !strings.Contains(text, "user 61241") {
		t.Errorf("with --trust-seal: %v: %s", err, text)
	}
	here.Eventually("the program has ended", func() bool { return !running(reader) })
}

// running reports whether a process has a text in its command line.
func running(text string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}

// twoGenerations saves a program that counts up in a file, twice, and ends it.
func (u *user) twoGenerations(d *harness.Daemon) string {
	u.t.Helper()
	program := background(u.t, u.python(d, `
import time
open("ready", "w").close()
while True: time.sleep(0.01)
`))
	waitFor(u.t, "the program runs", func() bool { return exists(u.file("ready")) })
	image := u.file("image")
	u.mustCLI(d, "--pre-dump", "--dir", image, "--pid", pid(program))
	u.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	return image
}

// TestCopiedManifest: an old manifest is copied over the newest one.
func TestCopiedManifest(t *testing.T) {
	a, d := alice(t), start(t)
	image := a.twoGenerations(d)
	files, err := os.ReadDir(filepath.Join(image, "generations"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	old, err := os.ReadFile(filepath.Join(image, "generations", files[0].Name()))
	if err == nil {
		err = os.WriteFile(filepath.Join(image, "generations", files[1].Name()), old, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.mustFail(d, []string{"--restore", "--detach", "--new-pids", "--dir", image}, "that of generation 1")
}

// TestPreparedCopy: an image is prepared, and another one that began as its copy is restored.
func TestPreparedCopy(t *testing.T) {
	a, d := alice(t), start(t)
	program := background(t, a.python(d, `
import sys, time
open("ready", "w").close()
while not __import__("os").path.exists("second"): time.sleep(0.001)
state = "second"
open("changed", "w").close()
while not __import__("os").path.exists("tell"): time.sleep(0.001)
open("told", "w").write(state)
`))
	waitFor(t, "the program runs", func() bool { return exists(a.file("ready")) })
	image := a.file("image")
	a.mustCLI(d, "--pre-dump", "--dir", image, "--pid", pid(program))
	other := a.copyImage(image, "other")
	a.mustCLI(d, "--pre-dump", "--dir", image, "--pid", pid(program)) // the same state, generation 2
	if err := os.WriteFile(a.file("second"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program has changed", func() bool { return exists(a.file("changed")) })
	a.mustCLI(d, "--dump", "--dir", other, "--pid", pid(program)) // generation 2 of the copy
	if err := os.Remove(a.file("second")); err != nil {
		t.Fatal(err)
	}
	a.mustCLI(d, "--pre-restore", "--dir", image)
	a.mustCLI(d, "--restore", "--detach", "--new-pids", "--dir", other)
	if err := os.WriteFile(a.file("tell"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program tells its state", func() bool {
		text, _ := os.ReadFile(a.file("told"))
		return string(text) == "second"
	})
}
