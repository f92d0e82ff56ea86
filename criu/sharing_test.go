package criu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/savedfile"
)

// redirected writes lines into a file that a shell might have opened for it, not for appending.
const redirected = `
log = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
step('one')
for i in range(2000):
    os.write(log, b'line %4d\n' % i)
    if i % 20 == 0: time.sleep(0.001)
step('two')
sys.exit(7)
`

func wantedLog() string {
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&want, "line %4d\n", i)
	}
	return want.String()
}

// TestClonesShareAFile: two clones that write to the same file, at different offsets, can be
// restored while the other one is writing.
func TestClonesShareAFile(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), redirected))
	s.says("at one")
	saved := s.save(cpu, true)
	s.allow("one")
	s.allow("two")
	var clones []ckpt.Restored
	var notices []string
	for range 3 {
		order := saved.order(t)
		order.NewPids = true
		order.Notice = func(text string) { notices = append(notices, text) }
		clones = append(clones, saved.restore(t, cpu, order))
	}
	for _, clone := range clones {
		ends(t, clone, 7)
	}
	got, err := os.ReadFile(s.file("log"))
	if err != nil || string(got) != wantedLog() {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
	if len(notices) == 0 || !strings.Contains(notices[0], s.file("log")) {
		t.Errorf("notices are %q", notices)
	}
}

// TestCloneBesideOriginal: a clone does not truncate what the program has written since the dump.
func TestCloneBesideOriginal(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), redirected))
	s.says("at one")
	saved := s.save(cpu, false)
	s.allow("one")
	s.says("at two")
	order := saved.order(t)
	order.NewPids = true
	back, err := cpu.Restore(within(t), order)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Kill() })
	if got, err := os.ReadFile(s.file("log")); err != nil || string(got) != wantedLog() {
		t.Errorf("with the clone the file has %d bytes, %v", len(got), err)
	}
	if err := back.Keep(); err != nil {
		t.Fatal(err)
	}
	s.allow("two")
	ends(t, back, 7)
	if got, err := os.ReadFile(s.file("log")); err != nil || string(got) != wantedLog() {
		t.Errorf("at the end the file has %d bytes, %v", len(got), err)
	}
}

// TestNoticeOfOtherUser: the notice of a file that a process of another user writes does not name
// the process.
func TestNoticeOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as other users")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	command := exec.Command("sleep", "1000")
	command.ExtraFiles = []*os.File{file}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	pid := command.Process.Pid
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("core-%d.img", pid)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	images, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	for uid, want := range map[uint32]string{
		0:        fmt.Sprintf("pid %d (sleep) writes it", pid),
		ordinary: "a process of another user writes it",
	} {
		if uid != 0 {
			for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
				if err := os.Chmod(at, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		var notices []string
		shared, err := new(CPU).sharedFiles(ckpt.RestoreOptions{
			Images: images, UID: uid, GID: uid, Files: []ckpt.FileContent{{Path: path}},
			Notice: func(text string) { notices = append(notices, text) },
		}, &record{})
		if err != nil || !shared[path] || len(notices) != 1 || !strings.Contains(notices[0], want) {
			t.Errorf("user %d: got %v, notices %q, %v, want %q", uid, shared, notices, err, want)
		}
	}
}

// TestFileChangedSinceDecision: a file that is not the one that was decided about is not written,
// and the same order succeeds with a new decision.
func TestFileChangedSinceDecision(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), redirected))
	s.says("at one")
	saved := s.save(cpu, true)
	s.allow("one")
	s.allow("two")
	if err := os.WriteFile(s.file("log"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	order := saved.order(t)
	order.Files[0].Seen = &savedfile.Seen{Missing: true}
	if _, err := cpu.Restore(within(t), order); !errors.Is(err, savedfile.ErrChanged) {
		t.Fatalf("got error %v, want %v", err, savedfile.ErrChanged)
	}
	if got, err := os.ReadFile(s.file("log")); err != nil || string(got) != "theirs" {
		t.Errorf("the file has %q, %v, want theirs", got, err)
	}
	again := saved.order(t)
	again.Control, again.Images = order.Control, order.Images
	ends(t, saved.restore(t, cpu, again), 7)
	if got, err := os.ReadFile(s.file("log")); err != nil || string(got) != wantedLog() {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
}
