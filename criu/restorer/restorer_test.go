package restorer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

func TestFreeRange(t *testing.T) {
	for _, test := range []struct {
		pids []int
		want int
	}{
		{nil, 1024},
		{[]int{1, 2, 1023}, 1024},
		{[]int{1024}, 1025},
		{[]int{1400}, 1401},
		{[]int{1100, 1500}, 1501},
		{[]int{1024 + reservedPIDs}, 1024},
	} {
		if got := freeRange(test.pids); got != test.want {
			t.Errorf("%v: got %d, want %d", test.pids, got, test.want)
		}
	}
}

// TestWrittenRestore restores files that a tree had open for writing.
func TestWrittenRestore(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, before, content string // without content only the size is restored
		bytes                 int64
		shared                bool
		want                  string // "" means an error
	}{
		{"missing", "", "new", 3, false, "new"},
		{"changed", "old and longer", "new", 3, false, "new"},
		{"only truncated", "old and longer", "", 3, false, "old"},
		{"too short", "ol", "", 3, false, ""},
		{"short content", "old", "n", 3, false, ""},
		{"shared", "old and longer", "", 3, true, "old and longer"},
		{"shared and short", "ol", "", 3, true, "ol\x00"},
	} {
		path := filepath.Join(dir, test.name)
		if test.before != "" {
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var content *os.File
		if test.content != "" {
			content = contentFile(t, test.content)
		}
		err := restoreOne(t.Context(), Written{Path: path, Bytes: test.bytes, Mode: 0o600, Shared: test.shared}, content)
		got, _ := os.ReadFile(path)
		if (err == nil) != (test.want != "") || err == nil && string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// restoreOne restores one file.
func restoreOne(ctx context.Context, w Written, content *os.File) error {
	return writeFiles(ctx, []Written{w}, func(int) *os.File { return content })
}

// contentFile returns an open file with a content.
func contentFile(t *testing.T, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestWrittenNoLink: a restore does not write through a symbolic link or to a directory.
func TestWrittenNoLink(t *testing.T) {
	dir := t.TempDir()
	secret, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir} {
		if err := restoreOne(t.Context(), Written{Path: path, Bytes: 3, Mode: 0o600}, contentFile(t, "new")); err == nil {
			t.Errorf("restored %s", path)
		}
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCheckIndices: file indices of an order must be valid; -1 is permitted where a file is
// optional.
func TestCheckIndices(t *testing.T) {
	files := []*os.File{nil, nil}
	valid := Order{Images: 0, Socket: 1, Terminal: -1, Log: -1, Written: []Written{{Content: -1}}}
	if err := (&server{order: valid, files: files}).check(); err != nil {
		t.Errorf("valid order: %v", err)
	}
	for name, change := range map[string]func(*Order){
		"images":     func(o *Order) { o.Images = 2 },
		"no socket":  func(o *Order) { o.Socket = -1 },
		"drain":      func(o *Order) { o.Drain = []int{0, 2} },
		"namespaces": func(o *Order) { o.Namespaces = []int{-1} },
		"inherit":    func(o *Order) { o.Inherit = []Inherited{{Key: "pipe:[1]", File: 2}} },
		"content":    func(o *Order) { o.Written = []Written{{Content: 2}} },
		"terminal":   func(o *Order) { o.Terminal = 2 },
		"log":        func(o *Order) { o.Log = 2 },
	} {
		order := valid
		change(&order)
		if err := (&server{order: order, files: files}).check(); !errors.Is(err, ErrOrder) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrOrder)
		}
	}
}

// TestAnswerErrors: errors that phosd distinguishes survive being sent.
func TestAnswerErrors(t *testing.T) {
	for _, sent := range []error{
		&PIDTaken{PID: 7, Name: "bash"}, fmt.Errorf("restore: %w", runner.ErrAborted), fmt.Errorf("pid 7: %w", proc.ErrGone),
	} {
		reply := newAnswer(sent)
		got := reply.err()
		if got == nil || got.Error() != sent.Error() {
			t.Errorf("got error %v, want %v", got, sent)
		}
		for _, kind := range kinds {
			if errors.Is(got, kind.Err) != errors.Is(sent, kind.Err) {
				t.Errorf("%v: got kind %s: %v", sent, kind.Name, errors.Is(got, kind.Err))
			}
		}
	}
	if reply := newAnswer(nil); reply.err() != nil {
		t.Errorf("got error %v, want none", reply.err())
	}
	if text := (&PIDTaken{PID: 7, Name: "sh", Zombie: true, Parent: 5, ParentName: "make"}).Error(); !strings.Contains(
		text, "pid 7 (sh)") || !strings.Contains(text, "pid 5 (make)") {
		t.Errorf("got %q", text)
	}
}

// TestPIDTaken: a user learns the name of a process that has a pid of the image only if it is the
// user's own.
func TestPIDTaken(t *testing.T) {
	self, err := proc.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for uid, visible := range map[uint32]bool{uint32(os.Getuid()): true, 54321: false} {
		s := &server{order: Order{User: runner.User{UID: uid}}}
		text := s.newPIDTaken(self.PID, self).Error()
		zombie := *self
		zombie.State = 'Z'
		text += s.newPIDTaken(self.PID, &zombie).Error()
		if strings.Contains(text, self.Name()) != visible || strings.Contains(text, "of another user") == visible {
			t.Errorf("user %d: got %q, want the name: %v", uid, text, visible)
		}
	}
}
