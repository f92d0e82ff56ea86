package criu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/pager"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/criu/watchdog"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestMain lets the test's own executable become a watchdog or a restorer.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case watchdog.Role:
			role(watchdog.Serve())
		case restorer.Role:
			role(restorer.Serve(os.Args[2:]))
		case pager.Role:
			role(pager.Serve())
		}
	}
	os.Exit(inCgroups(m))
}

// inCgroups runs the tests with a cgroup2 hierarchy, which it mounts if necessary, like phosd.
func inCgroups(m *testing.M) int {
	if dir, err := os.MkdirTemp("", "phos-criu-"); err == nil {
		_ = os.Chmod(dir, 0o755) // for other users
		defer os.Remove(dir)
		if release, err := freezer.MountCgroups(filepath.Join(dir, "cgroup")); err == nil {
			defer func() { _ = release() }()
		}
	}
	return m.Run()
}

func role(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// patience is the timeout of a test.
const patience = 2 * time.Minute

// program finds CRIU, or skips the test.
func program(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		lack(t, "root", "CRIU is run by root")
	}
	candidates := []string{os.Getenv("CRIU")}
	if home, err := os.UserHomeDir(); err == nil {
		built, _ := filepath.Glob(filepath.Join(home, ".cache/phos/criu-*/sbin/criu"))
		candidates = append(candidates, built...)
	}
	for _, candidate := range append(candidates, Find("criu")) {
		if candidate == "" {
			continue
		}
		if _, err := os.Stat(candidate); err == nil {
			return candidate
		}
	}
	lack(t, "criu", ErrNoProgram.Error())
	return ""
}

func lack(t testing.TB, what, why string) {
	t.Helper()
	if strings.Contains(os.Getenv("REQUIRE"), what) {
		t.Fatal(why)
	}
	t.Skip(why)
}

func newCPU(t testing.TB) *CPU {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Roles: []string{self}, Program: program(t)})
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// subject is a program to checkpoint.
type subject struct {
	t    testing.TB
	root proc.Identity
	out  string
}

// directory returns a directory that other users may enter.
func directory(t testing.TB, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "criu-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// interpreter returns the path of python itself: a wrapper script would be part of the tree.
func interpreter(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		lack(t, "python", "no python3")
	}
	return strings.TrimSpace(string(out))
}

// python returns a command without inherited state. It writes lines into the file "out" of its
// working directory, and sees the file "stop" as the request to exit.
func python(t testing.TB, dir, code string) *exec.Cmd {
	t.Helper()
	command := exec.Command(interpreter(t), "-u", "-c", "import os; os.closerange(3, 1024)\n"+prelude+code)
	command.Dir = dir
	command.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "MARK=kept"}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}

// prelude is common code: say writes a line, go waits until the test allows a step.
const prelude = `
import os, sys, time
out = open('out', 'a', buffering=1)
def say(*what): print(*what, file=out)
def step(name):
    say('at', name)
    while not os.path.exists(name): time.sleep(0.005)
`

func (s *subject) file(name string) string { return filepath.Join(filepath.Dir(s.out), name) }

// allow lets the program continue from a step.
func (s *subject) allow(name string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subject) says(line string) {
	s.t.Helper()
	eventually(
		s.t,
		"the program says "+line+"; it says:\n"+s.text(),
		func() bool { return strings.Contains("\n"+s.text(), "\n"+line+"\n") },
	)
}

func (s *subject) text() string {
	text, _ := os.ReadFile(s.out)
	return string(text)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// begin starts a program, and kills it at the end of the test.
func begin(t testing.TB, command *exec.Cmd) *subject {
	t.Helper()
	var noise bytes.Buffer
	if command.Stderr == nil {
		stderr, err := os.OpenFile(filepath.Join(command.Dir, "stderr"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer stderr.Close()
		if credential := command.SysProcAttr.Credential; credential != nil {
			if err := stderr.Chown(int(credential.Uid), -1); err != nil {
				t.Fatal(err)
			}
		}
		command.Stderr = stderr
		t.Cleanup(func() {
			if text, _ := os.ReadFile(stderr.Name()); t.Failed() && len(text) > 0 {
				t.Logf("the program's errors:\n%s%s", text, noise.String())
			}
		})
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = command.Wait(); close(done) }()
	t.Cleanup(func() {
		endTree(id)
		<-done
	})
	return &subject{t: t, root: id, out: filepath.Join(command.Dir, "out")}
}

func endTree(root proc.Identity) {
	tree, err := proc.Tree(root)
	if err != nil {
		return
	}
	for _, stat := range tree {
		_ = unix.Kill(stat.PID, unix.SIGKILL)
	}
}

// images creates a private directory like package ckpt's caller.
func images(t testing.TB, uid int) *os.File {
	t.Helper()
	outer, err := os.MkdirTemp("/dev/shm", "criu-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outer) })
	inner := filepath.Join(outer, "images")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(inner, uid, uid); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// saved is the result of a dump.
type saved struct {
	tree   *ckpt.Tree
	groups []uint32
	images *os.File
	kept   map[string][]byte
}

// freeze inspects a tree and freezes it.
func (s *subject) freeze(cpu *CPU) (*ckpt.Tree, ckpt.Frozen) {
	s.t.Helper()
	tree, err := cpu.Inspect(within(s.t), s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range tree.Obstacles {
		if !o.Harmless {
			s.t.Fatalf("obstacle: %s: %s (%s)", o.Subject, o.Reason, o.Remedy)
		}
	}
	frozen, err := cpu.Freeze(within(s.t), tree)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = frozen.Thaw() })
	if tree, err = cpu.Inspect(within(s.t), s.root); err != nil {
		s.t.Fatal(err)
	}
	return tree, frozen
}

// prestart starts CRIU for a dump into a directory, like package ckpt.
func (s *subject) prestart(cpu *CPU, dir *os.File) (drop func()) {
	s.t.Helper()
	tree, err := cpu.Inspect(within(s.t), s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	dropped, err := cpu.Prestart(within(s.t), tree, dir)
	if err != nil {
		s.t.Fatal(err)
	}
	drop = sync.OnceFunc(func() {
		if err := dropped(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(drop)
	return drop
}

// save dumps the tree; then it is resumed or killed.
func (s *subject) save(cpu *CPU, stop bool) *saved {
	s.t.Helper()
	status, err := proc.ReadStatus(s.root.PID)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.saveInto(cpu, images(s.t, int(status.UIDs[0])), stop)
}

func (s *subject) saveInto(cpu *CPU, dir *os.File, stop bool) *saved {
	s.t.Helper()
	defer s.prestart(cpu, dir)()
	tree, frozen := s.freeze(cpu)
	if err := frozen.Dump(within(s.t), dir); err != nil {
		s.t.Fatal(err)
	}
	groups, err := s.root.Groups()
	if err != nil {
		s.t.Fatal(err)
	}
	result := &saved{tree: tree, groups: groups, images: dir, kept: map[string][]byte{}}
	for _, file := range tree.Written {
		content, err := os.ReadFile(file.Path)
		if err != nil {
			s.t.Fatal(err)
		}
		result.kept[file.Path] = content
	}
	finish := frozen.Thaw
	if stop {
		finish = frozen.Kill
	}
	if err := finish(); err != nil {
		s.t.Fatal(err)
	}
	if stop {
		eventually(s.t, "the program has ended", func() bool { return s.root.Check() != nil })
	}
	return result
}

// order returns options that restore everything.
func (r *saved) order(t testing.TB) ckpt.RestoreOptions {
	root := r.tree.Processes[0]
	order := ckpt.RestoreOptions{
		Images: r.images, UID: root.UID, GID: root.GID, Groups: r.groups, Root: root.PID, Described: r.tree.Endpoints,
		Endpoints: map[uint32]*os.File{}, Control: filepath.Join(t.TempDir(), "restorer"),
	}
	for _, file := range r.tree.Written {
		order.Files = append(order.Files, ckpt.FileContent{
			Path: file.Path, Bytes: file.Bytes, Mode: 0o644, Content: bytes.NewReader(r.kept[file.Path]),
		})
	}
	return order
}

// restore restores a tree and lets it run.
func (r *saved) restore(t testing.TB, cpu *CPU, order ckpt.RestoreOptions) ckpt.Restored {
	t.Helper()
	back, err := cpu.Restore(within(t), order)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Kill() })
	if err := back.Keep(); err != nil {
		t.Fatal(err)
	}
	return back
}

// ends waits for the end of a restored tree.
func ends(t testing.TB, back ckpt.Restored, want int) {
	t.Helper()
	status, err := back.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := unix.WaitStatus(status); !got.Exited() || got.ExitStatus() != want {
		t.Fatalf("got exit status %#x, want %d", status, want)
	}
}

func endpoint(t testing.TB, tree *ckpt.Tree, kind string) image.Endpoint {
	t.Helper()
	for _, end := range tree.Endpoints {
		if end.Kind == kind {
			return end
		}
	}
	t.Fatalf("no %s in %+v", kind, tree.Endpoints)
	return image.Endpoint{}
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines returns the lines of a text that begin with one of the names and a colon.
func lines(text string, names ...string) (picked string) {
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, ":")
		for _, wanted := range names {
			if name == wanted {
				picked += line
			}
		}
	}
	return picked
}

// giveTo gives a file that the test has made to a user, as pos_cli does with its own.
func giveTo(t *testing.T, file *os.File, uid uint32) {
	t.Helper()
	if err := file.Chown(int(uid), -1); err != nil {
		t.Fatal(err)
	}
}
