package criu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// changing becomes another tree on request: with its own connection and an orphaned child.
const changing = `
import socket
step('one')
listener = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
if os.fork() == 0:
    near.sendall(b'kept')
    step('two')
    say(far.recv(4).decode())
    os._exit(0)
say('changed')
step('two')
os.wait()
say('done')
sys.exit(7)
`

// TestPrestartedTreeChanges changes a tree after Prestart, so that CRIU needs other options.
func TestPrestartedTreeChanges(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), changing))
	s.says("at one")
	dir := images(t, 0)
	drop := s.prestart(cpu, dir)
	s.allow("one")
	s.says("changed")
	tree, frozen := s.freeze(cpu)
	if len(tree.Processes) != 2 {
		t.Fatalf("the tree has %d processes", len(tree.Processes))
	}
	if err := frozen.Dump(within(t), dir); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Kill(); err != nil {
		t.Fatal(err)
	}
	drop()
	eventually(t, "the program has ended", func() bool { return s.root.Check() != nil })
	text, err := os.ReadFile(s.out)
	if err != nil {
		t.Fatal(err)
	}
	result := &saved{tree: tree, images: dir, kept: map[string][]byte{s.out: text}}
	back := result.restore(t, cpu, result.order(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("kept")
	s.says("done")
}

// TestPrestartedFreezeTwice freezes a tree with a prestarted CRIU more than once, as if another
// program of the same checkpoint was busy.
func TestPrestartedFreezeTwice(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), counting))
	s.says("at one")
	where := s.cgroup()
	dir := images(t, 0)
	drop := s.prestart(cpu, dir)
	for range 3 {
		_, frozen := s.freeze(cpu)
		if err := frozen.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	again := s.cgroup()
	if !strings.HasPrefix(again, where) || again == where {
		t.Errorf("between two attempts: cgroup %s", again)
	}
	_, frozen := s.freeze(cpu)
	if err := frozen.Dump(within(t), dir); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	drop()
	if after := s.cgroup(); after != where {
		t.Errorf("cgroup was %s, is %s", where, after)
	}
	if left, _ := filepath.Glob(filepath.Join(where, "phos.frozen.*")); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
	s.allow("one")
	s.says("done")
}

func (s *subject) cgroup() string {
	s.t.Helper()
	where, err := cgroup.Of(s.root.PID)
	if err != nil {
		s.t.Fatal(err)
	}
	return where
}
