package savedfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// lab is a directory with files as a checkpoint saved them.
type lab struct {
	*testing.T
	dir      string
	manifest image.Manifest
	policy   Policy
}

func newLab(t *testing.T) *lab { return &lab{T: t, dir: t.TempDir()} }

// save writes a file and adds it to the image.
func (l *lab) save(name, content string, cut *image.FileCut) string {
	l.Helper()
	path := filepath.Join(l.dir, name)
	l.write(name, content)
	hash, err := Hash(path, strings.NewReader(content), uint64(len(content)))
	if err != nil {
		l.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		l.Fatal(err)
	}
	if cut != nil {
		cut.Inode = stat.Ino
	}
	l.manifest.Files = append(l.manifest.Files, image.SavedFile{
		Path: path, Bytes: uint64(len(content)), Mode: 0o644, Hash: hash, Cut: cut,
	})
	return path
}

func (l *lab) write(name, content string) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(content), 0o644); err != nil {
		l.Fatal(err)
	}
}

// decide returns "CHANGE ACTION" of each file.
func (l *lab) decide() (decisions []Decision, short []string) {
	l.Helper()
	decisions, err := Decide(&l.manifest, Options{As: fsuid.Rights{}, Policy: l.policy})
	if err != nil {
		l.Fatal(err)
	}
	for _, d := range decisions {
		short = append(short, string(d.Change)+", "+string(d.Action))
	}
	return decisions, short
}

// writer starts a process that has a file open, until the test ends.
func (l *lab) writer(name string, flags int) {
	l.Helper()
	file, err := os.OpenFile(filepath.Join(l.dir, name), flags, 0)
	if err != nil {
		l.Fatal(err)
	}
	defer file.Close()
	command := exec.Command("cat")
	command.ExtraFiles = []*os.File{file}
	in, err := command.StdinPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := command.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
}

// TestOneFile checks what is done with a file that was "old\n" at the checkpoint.
func TestOneFile(t *testing.T) {
	grows := func(l *lab) { l.write("f", "old\nnew\n") }
	changes := func(l *lab) { l.write("f", "other\n") }
	for _, test := range []struct {
		name   string
		cut    *image.FileCut
		change func(*lab)
		want   map[Policy]string
	}{
		{"unchanged", &image.FileCut{}, func(*lab) {}, map[Policy]string{
			Default: "unchanged, restore", Keep: "unchanged, restore", Refuse: "unchanged, restore",
		}},
		{"removed", &image.FileCut{}, func(l *lab) { _ = os.Remove(filepath.Join(l.dir, "f")) }, map[Policy]string{
			Default: "missing, restore", Keep: "missing, restore", Refuse: "missing, restore",
		}},
		{"grown log", &image.FileCut{Append: true}, grows, map[Policy]string{
			Default: "grown, keep", Keep: "grown, keep", Restore: "grown, restore", Refuse: "grown, refuse",
		}},
		{"grown", &image.FileCut{}, grows, map[Policy]string{
			Default: "grown, copy and restore", Keep: "grown, keep", Restore: "grown, restore", Refuse: "grown, refuse",
		}},
		{"changed log", &image.FileCut{Append: true}, changes, map[Policy]string{
			Default: "modified, copy and restore", Keep: "modified, keep", Restore: "modified, restore",
			Refuse: "modified, refuse",
		}},
		{"emptied", &image.FileCut{}, func(l *lab) { l.write("f", "") }, map[Policy]string{
			Default: "modified, restore", Keep: "modified, keep", Refuse: "modified, refuse",
		}},
		{"replaced", &image.FileCut{}, func(l *lab) {
			l.write("new", "xyz\n")
			_ = os.Rename(filepath.Join(l.dir, "new"), filepath.Join(l.dir, "f"))
		}, map[Policy]string{Default: "replaced, copy and restore", Keep: "replaced, keep", Refuse: "replaced, refuse"}},
		{"a directory now", &image.FileCut{}, func(l *lab) {
			_ = os.Remove(filepath.Join(l.dir, "f"))
			_ = os.Mkdir(filepath.Join(l.dir, "f"), 0o700)
		}, map[Policy]string{Default: "replaced, refuse", Keep: "replaced, refuse", Restore: "replaced, refuse"}},
		{"of an older image", nil, changes, map[Policy]string{
			Default: "modified, copy and restore", Restore: "modified, restore", Refuse: "modified, refuse",
		}},
		{"unchanged, of an older image", nil, func(*lab) {}, map[Policy]string{Default: "unchanged, restore"}},
		{"written by another process", &image.FileCut{}, func(l *lab) {
			changes(l)
			l.writer("f", os.O_WRONLY)
		}, map[Policy]string{Default: "modified, keep", Restore: "modified, keep", Refuse: "modified, refuse"}},
		{"changed, and open in another process", &image.FileCut{}, func(l *lab) {
			changes(l)
			l.writer("f", os.O_RDONLY)
		}, map[Policy]string{Default: "modified, keep", Keep: "modified, keep", Restore: "modified, restore", Refuse: "modified, refuse"}},
		{
			"unchanged, but open for reading", &image.FileCut{}, func(l *lab) { l.writer("f", os.O_RDONLY) },
			map[Policy]string{Default: "unchanged, restore", Refuse: "unchanged, restore"},
		},
		{
			"unchanged, but open for writing", &image.FileCut{}, func(l *lab) { l.writer("f", os.O_RDWR) },
			map[Policy]string{Default: "unchanged, keep", Refuse: "unchanged, keep"},
		},
		{
			"read by another process", &image.FileCut{}, func(l *lab) { l.writer("f", os.O_RDONLY) },
			map[Policy]string{Default: "unchanged, restore"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.save("f", "old\n", test.cut)
			test.change(l)
			for policy, want := range test.want {
				l.policy = policy
				decisions, got := l.decide()
				if got[0] != want {
					t.Errorf("--files=%s: got %s, want %s (%s)", policy, got[0], want, decisions[0].Reason)
				}
				if unremarkable := got[0] == "unchanged, restore" || got[0] == "missing, restore"; unremarkable !=
					(decisions[0].Reason == "") {
					t.Errorf("--files=%s: %s, and the reason is %q", policy, got[0], decisions[0].Reason)
				}
			}
		})
	}
}

// TestCopyOfGrownFile: of a file that has only grown, only the new end is copied.
func TestCopyOfGrownFile(t *testing.T) {
	l := newLab(t)
	l.save("f", "old\n", &image.FileCut{})
	l.save("g", "old\n", &image.FileCut{})
	l.write("f", "old\nnew\n")
	l.write("g", "odd\nnew\n")
	decisions, _ := l.decide()
	if decisions[0].CopyFrom != 4 || decisions[1].CopyFrom != 0 {
		t.Errorf("copies begin at %d and %d, want 4 and 0", decisions[0].CopyFrom, decisions[1].CopyFrom)
	}
}

// TestTouched: a file whose times have changed, but not its content, is unchanged. On a disk, one
// whose times are those of the checkpoint is not read, unless the content must tell.
func TestTouched(t *testing.T) {
	l := newLab(t)
	path := l.save("f", "old\n", &image.FileCut{Modified: 1, Changed: 1})
	if _, got := l.decide(); got[0] != "unchanged, restore" {
		t.Error("other times, same content:", got)
	}
	var stat syscall.Stat_t
	var system syscall.Statfs_t
	l.write("f", "new\n")
	if err := errors.Join(syscall.Stat(path, &stat), syscall.Statfs(path, &system)); err != nil {
		t.Fatal(err)
	}
	l.manifest.Files[0].Cut.Modified, l.manifest.Files[0].Cut.Changed = stat.Mtim.Nano(), stat.Ctim.Nano()
	if _, got := l.decide(); slices.Contains(diskSystems, system.Type) != (got[0] == "unchanged, restore") {
		t.Error("same times:", got)
	}
	decisions, err := Decide(&l.manifest, Options{CompareContent: true})
	if err != nil || decisions[0].Change != Modified {
		t.Errorf("same times, by content: %+v, %v", decisions, err)
	}
}

// TestOnlyTimes: a file whose content is not in the image is not taken for unchanged if its times
// have changed, and is left alone.
func TestOnlyTimes(t *testing.T) {
	for policy, want := range map[Policy]string{
		Default: "modified, keep", Keep: "modified, keep", Restore: "modified, keep", Refuse: "modified, refuse",
	} {
		l := newLab(t)
		l.policy = policy
		l.save("f", "old\n", &image.FileCut{Modified: 1, Changed: 1})
		l.manifest.Files[0].Hash = ""
		if decisions, got := l.decide(); got[0] != want || !strings.Contains(decisions[0].Reason, "its times") {
			t.Errorf("--files=%s: got %+v, want %s", policy, decisions[0], want)
		}
	}
}

// TestSeen: a decision is good for the file that it was made about, and for any if that does not
// matter.
func TestSeen(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"same", "grown", "log", "modified", "missing"} {
		l.save(name, "old\n", &image.FileCut{Append: name == "log"})
	}
	l.write("grown", "old\nnew\n")
	l.write("log", "old\nnew\n")
	l.write("modified", "new\n")
	if err := os.Remove(filepath.Join(l.dir, "missing")); err != nil {
		t.Fatal(err)
	}
	decisions, _ := l.decide()
	for i, want := range []string{"content", "content", "any", "times", "missing"} {
		got, seen := "times", decisions[i].Seen
		switch {
		case seen == nil:
			got = "any"
		case seen.Missing:
			got = "missing"
		case seen.Hash == l.manifest.Files[i].Hash && seen.HashBytes == 4:
			got = "content"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", decisions[i].Path, got, want)
		}
	}
	l.policy = Restore
	if decisions, _ = l.decide(); decisions[3].Seen != nil {
		t.Error("--files=restore depends on what is overwritten")
	}
}

// TestKeptLogs: one line names all logs that are kept, with what was appended, and says how to
// choose otherwise.
func TestKeptLogs(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"log", "log2", "same", "modified"} {
		l.save(name, "old\n", &image.FileCut{Append: true})
	}
	l.write("log", "old\nnew\n")
	l.write("log2", "old\nmore lines\n")
	l.write("modified", "new\n")
	decisions, _ := l.decide()
	got := KeptLogs(decisions)
	for _, want := range []string{"/log (4 bytes)", "/log2 (11 bytes)", "--files=restore"} {
		if !strings.Contains(got, want) || strings.Contains(got, "/same") || strings.Contains(got, "modified") {
			t.Errorf("got %q, want %q in it, and no other file", got, want)
		}
	}
	if got := KeptLogs(decisions[2:]); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// TestDatabase checks that the files of an SQLite database are kept or restored together.
func TestDatabase(t *testing.T) {
	const old, fresh = sqliteMagic + "old", sqliteMagic + "written by others"
	for _, test := range []struct {
		name  string
		locks [3]string // of the database, its log and its index; "-": there is no log
		write []string  // names of files that another program writes, or removes ("!")
		want  string
	}{
		{"unchanged", [3]string{"read", "", "read"}, nil, "restore restore restore"},
		{"read by others", [3]string{"read", "", "read"}, []string{"db-shm"}, "restore restore restore"},
		{"written and closed", [3]string{"read", "", "read"}, []string{"db", "!db-wal", "!db-shm"}, "keep keep keep"},
		{"log written", [3]string{"read", "", "read"}, []string{"db-wal", "db-shm"}, "keep keep keep"},
		{
			"in a transaction",
			[3]string{"read", "", "write"},
			[]string{"db", "!db-wal", "!db-shm"},
			"copy and restore restore restore",
		},
		{"with a journal", [3]string{"", "-"}, []string{"db"}, "keep"},
		{"with a journal, in a transaction", [3]string{"read", "-"}, []string{"db"}, "copy and restore"},
		{
			"log written, in a transaction",
			[3]string{"read", "", "write"},
			[]string{"db-wal", "db-shm"},
			"copy and restore copy and restore restore",
		},
		{"a journal of others", [3]string{"", "-"}, []string{"db", "db-journal"}, "keep"},
		{"a journal of others, in a transaction", [3]string{"read", "-"}, []string{"db", "db-journal"}, "refuse"},
		{"a journal of others, unchanged", [3]string{"read", "-"}, []string{"db-journal"}, "restore"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.save("db", old, &image.FileCut{Lock: test.locks[0]})
			if test.locks[1] != "-" {
				l.save("db-wal", "log", &image.FileCut{Lock: test.locks[1]})
				l.save("db-shm", "index", &image.FileCut{Lock: test.locks[2], Mapped: true})
			}
			for _, name := range test.write {
				if gone, ok := strings.CutPrefix(name, "!"); ok {
					_ = os.Remove(filepath.Join(l.dir, gone))
				} else {
					l.write(name, fresh)
				}
			}
			decisions, _ := l.decide()
			var got []string
			for _, d := range decisions {
				got = append(got, string(d.Action))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

// TestCopyName: the copies of a database's files are a database.
func TestCopyName(t *testing.T) {
	for path, want := range map[string]string{"/a/log": "/a/log.phos-T", "/a/x.db-wal": "/a/x.db.phos-T-wal"} {
		if got := CopyName(path, "T"); got != want {
			t.Errorf("copy of %s: got %s, want %s", path, got, want)
		}
	}
}

// TestHash: the hash of content that is too short is an error.
func TestHash(t *testing.T) {
	if _, err := Hash("f", strings.NewReader("abc"), 4); err == nil {
		t.Errorf("got %v", err)
	}
}
