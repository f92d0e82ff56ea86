package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/pty"
)

// squatter binds every abstract name that another process binds, and keeps it. It says which.
const squatter = `
import socket, sys
held = {}
open("ready", "w").close()
while True:
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        if name[0] != "@" or name in held: continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            s = socket.socket(socket.AF_UNIX, kind)
            try: s.bind("\0" + name[1:])
            except OSError: continue
            held.setdefault(name, []).append(s)
    open("held", "w").write("\n".join(held))
`

// sharing are two processes with shared memory.
const sharing = `
import mmap, os, signal, time
memory = mmap.mmap(-1, 1 << 20)
if os.fork() == 0:
    while True: time.sleep(0.01); memory[0] = (memory[0] + 1) % 256
open("ready", "w").close()
while True: signal.pause()
`

// TestSquattedNames: bob binds each abstract name that exists while a program of alice's with
// shared memory is saved and restored. It is restored again and again.
func TestSquattedNames(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	background(t, b.python(d, squatter))
	waitFor(t, "bob looks for names", func() bool { return exists(b.file("ready")) })
	program := background(t, a.python(d, sharing))
	waitFor(t, "the program runs", func() bool { return exists(a.file("ready")) })
	image := a.file("image")
	a.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	for range 3 {
		text := a.mustCLI(d, "--restore", "--detach", "--dir", image)
		if !strings.Contains(text, "runs again") {
			t.Fatal(text)
		}
		a.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	}
	held, err := os.ReadFile(b.file("held"))
	t.Logf("bob holds %q, %v", held, err)
}

// TestTakenWhileRestored: while a restore of alice's has begun, a process of bob's gets the pid of
// the program. The restore fails, and bob's process is not killed when phosd cleans up.
func TestTakenWhileRestored(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	program := a.python(d, reader)
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	background(t, program)
	waitFor(t, "the program runs", func() bool { return exists(a.file("ready")) })
	image, proceed := a.file("image"), filepath.Join(t.TempDir(), "go")
	a.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	d.Kill()
	d.Relaunch(ckpt.FailpointsVariable + "=processes=until:" + proceed)
	restore := a.cli(d, "--restore", "--detach", "--dir", image)
	var said bytes.Buffer
	restore.Stdout, restore.Stderr = &said, &said
	if err := restore.Start(); err != nil {
		t.Fatal(err)
	}
	d.LogContains("name=processes")
	stranger := b.givePID(program.Process.Pid)
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore.Wait(); err == nil {
		t.Errorf("restored with a pid that was taken: %s", said.String())
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("bob's process: %v; the restore said: %s", err, said.String())
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stranger.Process.Pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
		t.Errorf("bob's process was killed: %s, %v", stat, err)
	}
}

// TestGivenDeviceKeepsOwner: alice restores a program and gives a terminal of root's for its input:
// a character device whose major is at least 136.
func TestGivenDeviceKeepsOwner(t *testing.T) {
	a, d := alice(t), start(t)
	image := a.readerImage(d)
	slave, master, err := pty.Open(24, 80)
	if err != nil {
		t.Skip(err)
	}
	defer slave.Close()
	defer master.Close()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	var info unix.Stat_t
	if err := errors.Join(os.Chmod(path, 0o666), unix.Stat(path, &info)); err != nil {
		t.Skip(err)
	}
	if major := unix.Major(info.Rdev); major < 136 {
		t.Skipf("terminals have major %d", major)
	}
	before := owner(t, path)
	text, _ := run(t, a.intruder(d, "restore-with", image, path, "1"))
	if want := "file is of another kind"; !strings.Contains(text, want) { // the file says so, not the request
		t.Errorf("a terminal for a pipe: %q, want %q in it", text, want)
	}
	if after := owner(t, path); after != before {
		t.Errorf("root's terminal belongs to %s, before to %s: %s", after, before, text)
	}
}

// TestDeletedDirectory: bob's policy names a directory, which is deleted then. Alice gets a new
// directory with the same inode, and her program is saved there.
func TestDeletedDirectory(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	images := b.file("images")
	if err := errors.Join(os.Mkdir(images, 0o755), os.Chown(images, int(b.uid), int(b.uid))); err != nil {
		t.Fatal(err)
	}
	number := func(path string) uint64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	gone := number(images)
	policy := "checkpoint:\n  dir: %s\n  every: 2s\n"
	program := b.programIn(d, "program", fmt.Sprintf(policy, images), onGPU+"ready()")
	waitFor(t, "bob's program is saved", func() bool { return b.status(d, program).Checkpoint.Generation != nil })
	if err := os.RemoveAll(images); err != nil {
		t.Fatal(err)
	}
	mine := ""
	for i := 0; mine == ""; i++ {
		path := a.file(fmt.Sprint("images", i))
		if i == 200 {
			t.Skip("the file system gives no number again")
		}
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chown(path, int(a.uid), int(a.uid))); err != nil {
			t.Fatal(err)
		}
		if number(path) == gone {
			mine = path
		}
	}
	victim := a.programIn(d, "program", fmt.Sprintf(policy, mine), onGPU+"ready()")
	waitFor(t, "alice's program is saved", func() bool {
		got := a.status(d, victim).Checkpoint
		if got.Error != "" {
			t.Fatalf("alice's checkpoint: %s", got.Error)
		}
		return got.Generation != nil
	})
}
