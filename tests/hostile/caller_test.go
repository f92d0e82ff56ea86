package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestDeadCaller: a process connects and ends, and another process sends requests on its
// connection.
func TestDeadCaller(t *testing.T) {
	b, d := bob(t), start(t)
	text, err := run(t, b.intruder(d, "connect-leave"))
	if err != nil {
		t.Fatal(err, text)
	}
	if !strings.Contains(text, "status:") || strings.Contains(text, "<nil>") {
		t.Errorf("a connection of a dead process got %q, want an error", text)
	}
}

// TestCallerEndsAfterHandshake: a process connects, and its child shakes hands on the connection
// and gets an answer. Then the process ends, and the child asks again: at once, while the process
// is a zombie, or when another user's process has got the pid.
func TestCallerEndsAfterHandshake(t *testing.T) {
	for _, how := range []string{reaped, zombie, "recycled"} {
		t.Run(how, func(t *testing.T) {
			a, b, d := alice(t), bob(t), start(t)
			attack := b.intruder(d, "ask-leave", b.file("leave"), b.file("go"))
			if how == zombie {
				neglect(attack)
			}
			said := &lines{}
			attack.Stdout = said
			text := func() string { return strings.Join(said.all(), "") }
			left := background(t, attack).Process.Pid
			waitFor(t, "there is a first answer", func() bool { return strings.Contains(text(), "first:") })
			if how == zombie {
				left = harness.OnlyChild(t, left)
			}
			caller, err := proc.Of(left)
			if err != nil {
				t.Fatal(err)
			}
			b.write("leave")
			waitEnd(t, caller)
			if how == "recycled" {
				a.givePID(left)
			}
			b.write("go")
			waitFor(t, "there is a second answer", func() bool { return strings.Contains(text(), "second:") })
			if !strings.Contains(text(), "first: <nil>") {
				t.Errorf("while the caller lives: %q, want an answer", text())
			}
			if strings.Contains(text(), "second: <nil>") {
				t.Errorf("after its end: %q, want an error", text())
			}
		})
	}
}

// neglect makes a command run as the child of a process that never asks how it ended.
func neglect(command *exec.Cmd) {
	command.Args = append([]string{"sh", "-c", `"$@" & exec sleep 100000`, "sh", command.Path}, command.Args[1:]...)
	command.Path = "/bin/sh"
}

// waitEnd waits until a process has ended, or is a zombie.
func waitEnd(t *testing.T, id proc.Identity) {
	t.Helper()
	waitFor(t, "the process has ended", func() bool {
		_, zombie := id.Zombie()
		return zombie || id.Gone()
	})
}

// write makes an empty file in the home directory.
func (u *user) write(name string) {
	u.t.Helper()
	if err := os.WriteFile(u.file(name), nil, 0o644); err != nil {
		u.t.Fatal(err)
	}
}

// reader is a program that reads its standard input, which is a pipe.
const reader = `
import os, sys
open("ready", "w").close()
sys.stdin.read()
`

// readerImage saves a program whose standard input is a pipe, and ends it.
func (u *user) readerImage(d *harness.Daemon) string {
	u.t.Helper()
	command := u.python(d, reader)
	in, err := command.StdinPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	defer in.Close()
	program := background(u.t, command)
	waitFor(u.t, "the program runs", func() bool { return exists(u.file("ready")) })
	image := u.file("image")
	u.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	return image
}

// TestGivenFileKeepsOwner: alice restores a program and gives root's FIFO for its input.
func TestGivenFileKeepsOwner(t *testing.T) {
	a, d := alice(t), start(t)
	image := a.readerImage(d)
	fifo := filepath.Join(t.TempDir(), "fifo")
	for _, err := range []error{unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666), openWay(filepath.Dir(fifo))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := owner(t, fifo)
	text, _ := run(t, a.intruder(d, "restore-with", image, fifo, "1"))
	if after := owner(t, fifo); after != before {
		t.Errorf("root's FIFO belongs to %s, before to %s: %s", after, before, text)
	}
}

// openWay lets other users reach a directory.
func openWay(dir string) error {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755|os.ModeSticky); err != nil {
			return err
		}
		if dir == os.TempDir() || filepath.Dir(dir) == os.TempDir() {
			return nil
		}
	}
	return nil
}
