package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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
	a := alice(t)
	d, proceed := startHeld(t)
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
	said := refusedLate(t, d, dump, proceed, func() {
		signalTo(t, program)
		waitFor(t, "the program is root", func() bool { return exists(a.file("risen-ready")) })
	})
	if kept, _ := os.ReadDir(filepath.Join(image, "generations")); len(kept) > 0 {
		t.Errorf("the image has generations %v", kept)
	}
	if !strings.Contains(said, says) {
		t.Errorf("the refusal is %q", said)
	}
	if err := program.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program does not run: %v", err)
	}
}

// signalTo sends SIGUSR1 to a program, which then does what it waits to do.
func signalTo(t *testing.T, program *exec.Cmd) {
	t.Helper()
	if err := program.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
}

// startHeld starts a phosd whose checkpoints, once they have inspected a tree, wait for a file
// before they freeze it.
func startHeld(t *testing.T) (d *harness.Daemon, proceed string) {
	t.Helper()
	proceed = filepath.Join(t.TempDir(), "go")
	d = start(t)
	d.Kill()
	d.Relaunch(ckpt.FailpointsVariable + "=freeze=until:" + proceed)
	return d, proceed
}

// refusedLate runs a dump that must fail because of what happens between inspection and freeze. It
// returns what the dump says.
func refusedLate(t *testing.T, d *harness.Daemon, dump *exec.Cmd, proceed string, happens func()) string {
	t.Helper()
	var said bytes.Buffer
	dump.Stdout, dump.Stderr = &said, &said
	if err := dump.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dump.Wait() }()
	waitFor(t, "the tree is inspected", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the dump ended too early: %v: %s", err, said.String())
		default:
		}
		log, err := os.ReadFile(d.Log)
		return err == nil && strings.Contains(string(log), "msg=step name=quiesce")
	})
	happens()
	if err := os.WriteFile(proceed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Errorf("the dump succeeded: %s", said.String())
	}
	return said.String()
}

// late are programs that do, between inspection and freeze, what an inspection refuses, or what
// ends their workers. says is what the refusal names.
var late = []struct {
	name, text string
	says       []string
}{
	{"a system call filter", `
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
allow = (ctypes.c_uint64 * 1)(0x7fff000000000006)
def change():
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(allow)))): os._exit(1)
`, []string{"has a seccomp filter", "run it without the sandbox"}},
	{"a tracer", `
libc.prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)
traced, (go, start), (told, tell_parent) = os.getpid(), os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(go, 1)
    if libc.ptrace(0x4206, traced, 0, 0): os._exit(1)
    os.write(tell_parent, b"x")
    try:
        while True:
            stopped, status = os.waitpid(-1, 0x40000000)
            libc.ptrace(7, stopped, 0, os.WSTOPSIG(status))
    except ChildProcessError: os._exit(0)
def change():
    os.write(start, b"x")
    os.read(told, 1)
`, []string{"is traced by pid", "end the debugger's session"}},
	{"the ring is truncated", `
def change():
    for path, _, _ in ours(): os.truncate(path, 0)
`, []string{"has lost its worker (pid", "has truncated", "/session", "restore it from an earlier generation"}},
}

// TestChangesBeforeFreeze: what a program becomes after its inspection is refused as it would have
// been by the inspection, and a worker that it ends is named.
func TestChangesBeforeFreeze(t *testing.T) {
	for _, test := range late {
		t.Run(test.name, func(t *testing.T) {
			b := bob(t)
			d, proceed := startHeld(t)
			program := b.programIn(d, "late", "", tells+test.text+`
def changed(*_):
    change()
    tell()
signal.signal(signal.SIGUSR1, changed)
ready()
`)
			dump := b.cli(d, "--dump", "--dir", b.file("image"), "--pid", pid(program))
			said := refusedLate(t, d, dump, proceed, func() {
				signalTo(t, program)
				waitFor(t, "the program has changed", func() bool { return exists(b.file("late/alive")) })
			})
			for _, says := range test.says {
				if !strings.Contains(said, says) {
					t.Errorf("the refusal is %q, want %q in it", said, says)
				}
			}
			if err := program.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the program does not run: %v", err)
			}
		})
	}
}

// admittedAgain changes all that an inspection looks at: a connection, whether the user may read
// its memory, and, in children, rights, user, namespaces and the executed file. The children end
// with it.
const admittedAgain = tells + `
import socket
lives, alive = os.pipe()
def start(act):
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(alive)
        os.dup2(lives, 0)
        act()
        os.close(tell)
        os.read(0, 1)
        os._exit(0)
    os.close(tell)
    os.read(told, 1) # until it has executed another file, or is done
def apart():
    if libc.unshare(0x10000000): os._exit(1)
def change(*_):
    global connection
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    copy = os.memfd_create("copy")
    os.write(copy, open("../raised", "rb").read())
    start(lambda: os.execve(copy, ["cat"], os.environ))
    start(lambda: os.execv("../raised", ["cat"]))
    start(lambda: os.execv("../setuid", ["cat"]))
    start(apart)
    if libc.prctl(4, 0, 0, 0, 0): os._exit(1)
    tell()
signal.signal(signal.SIGUSR1, change)
ready()
`

// raisedCopies makes copies of cat in the user's home directory: "raised" gets a capability when it
// is executed, "setuid" becomes root.
func (u *user) raisedCopies() {
	u.t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		u.t.Fatal(err)
	}
	text, err := os.ReadFile(cat)
	if err != nil {
		u.t.Fatal(err)
	}
	chown := make([]byte, 20) // CAP_CHOWN, permitted and effective, in the kernel's form of version 2
	binary.LittleEndian.PutUint32(chown, 0x2000001)
	binary.LittleEndian.PutUint32(chown[4:], 1<<unix.CAP_CHOWN)
	for name, mode := range map[string]os.FileMode{"raised": 0o755, "setuid": 0o755 | os.ModeSetuid} {
		if err := errors.Join(os.WriteFile(u.file(name), text, 0o755), os.Chmod(u.file(name), mode)); err != nil {
			u.t.Fatal(err)
		}
	}
	if err := unix.Setxattr(u.file("raised"), "security.capability", chown, 0); err != nil {
		u.t.Fatal(err)
	}
}

// TestAdmittedAgain: a program changes all that its inspection has looked at. The frozen tree is
// refused for each of the changes, before anything of it is read.
func TestAdmittedAgain(t *testing.T) {
	b := bob(t)
	b.raisedCopies()
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	_, port, err := net.SplitHostPort(outside.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, proceed := startHeld(t)
	program := b.programIn(d, "changes", "", admittedAgain, port)
	image := b.file("image")
	dump := b.cli(d, "--dump", "--dir", image, "--pid", pid(program))
	said := refusedLate(t, d, dump, proceed, func() {
		signalTo(t, program)
		waitFor(t, "the program has changed", func() bool { return exists(b.file("changes/alive")) })
	})
	if !strings.Contains(said, "cannot be saved: ") {
		t.Errorf("the refusal is %q", said)
	}
	// So long an answer is cut, but not in the log.
	for _, says := range []string{
		"is a TCP connection", "is not dumpable", "its program is a memfd", "has privileges that its user does not have",
		"runs as another user or in other groups", "has a user namespace of its own",
	} {
		d.LogContains(says)
	}
	if exists(image) {
		t.Error("the refused checkpoint left a directory")
	}
	if err := program.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program does not run: %v", err)
	}
}
