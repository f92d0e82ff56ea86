package restorer

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// seenOf returns a file as it is now. The hash is that of content, if that is not empty.
func seenOf(t *testing.T, path, content string) *savedfile.Seen {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); errors.Is(err, os.ErrNotExist) {
		return &savedfile.Seen{Missing: true}
	} else if err != nil {
		t.Fatal(err)
	}
	s := &savedfile.Seen{Inode: stat.Ino, Bytes: stat.Size, Modified: stat.Mtim.Nano(), Changed: stat.Ctim.Nano()}
	if content != "" {
		hash, err := savedfile.Hash(path, strings.NewReader(content), uint64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		s.Hash, s.HashBytes = hash, uint64(len(content))
	}
	return s
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// namesIn returns the names in a directory.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestChangedBetween: if a file changes between the decision and the restore, nothing is written,
// not even files that have not changed.
func TestChangedBetween(t *testing.T) {
	for _, test := range []struct {
		name, before, hashed string
		change               func(path string) error
	}{
		{"grown", "old", "", func(path string) error { return os.WriteFile(path, []byte("old and more"), 0o600) }},
		{"written", "old", "", func(path string) error { return os.WriteFile(path, []byte("odd"), 0o600) }},
		{"removed", "old", "", os.Remove},
		{"created", "", "", func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o600) }},
		{"replaced", "old", "", func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("old"), 0o600), os.Rename(path+"2", path))
		}},
		// As by a write through a mapping, which leaves the times as they were.
		{"only the content", "new", "old", func(string) error { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			other, path := filepath.Join(dir, "another"), filepath.Join(dir, "file")
			write(t, other, "theirs")
			if test.before != "" {
				write(t, path, test.before)
			}
			order := []Written{
				{Path: other, Bytes: 3, Mode: 0o600, Seen: seenOf(t, other, ""), CopyTo: other + ".phos-T"},
				{Path: path, Bytes: 3, Mode: 0o600, Seen: seenOf(t, path, test.hashed)},
			}
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
			want, _ := os.ReadFile(path)
			names := namesIn(t, dir)
			err := writeFiles(t.Context(), order, func(int) *os.File { return contentFile(t, "our") })
			if !errors.Is(err, savedfile.ErrChanged) {
				t.Errorf("got error %v, want %v", err, savedfile.ErrChanged)
			}
			if got, _ := os.ReadFile(path); string(got) != string(want) {
				t.Errorf("the file has %q, want %q", got, want)
			}
			if got, _ := os.ReadFile(other); string(got) != "theirs" || !slices.Equal(namesIn(t, dir), names) {
				t.Errorf("the other file has %q; names are %v", got, namesIn(t, dir))
			}
		})
	}
}

// TestChangedAfterCheck: a file that changes after it was checked is not written either.
func TestChangedAfterCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "old")
	file := target{Written: &Written{Path: path, Bytes: 3, Seen: seenOf(t, path, ""), CopyTo: path + ".phos-T"}}
	if err := file.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer file.file.Close()
	write(t, path, "theirs")
	if err := file.write(t.Context(), contentFile(t, "our")); !errors.Is(err, errWritten) {
		t.Errorf("got error %v, want %v", err, errWritten)
	}
	if got, _ := os.ReadFile(path); string(got) != "theirs" {
		t.Errorf("the file has %q, want theirs", got)
	}
}

// TestSameContent: a file that has its content is not written: its times stay.
func TestSameContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "our")
	before := seenOf(t, path, "our")
	err := restoreOne(t.Context(), Written{Path: path, Bytes: 3, Seen: before}, contentFile(t, "our"))
	if err != nil {
		t.Fatal(err)
	}
	if after := seenOf(t, path, "our"); *after != *before {
		t.Errorf("got %+v, want %+v", after, before)
	}
}

// TestCopyOfCheckedFile: what is copied is the file that was checked, whatever has its name now.
func TestCopyOfCheckedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "checked")
	file := target{Written: &Written{Path: path, Bytes: 3, CopyTo: path + ".phos-T"}}
	if err := file.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer file.file.Close()
	write(t, path+"2", "another")
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	if err := file.write(t.Context(), contentFile(t, "our")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path + ".phos-T"); err != nil || string(got) != "checked" {
		t.Errorf("the copy has %q, %v, want checked", got, err)
	}
}

// TestNoPartOfCopy: a copy that fails, for example at the deadline, leaves nothing, and the file is
// as it was. A copy that is not complete never has the name of a copy.
func TestNoPartOfCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "theirs")
	order := Written{Path: path, Bytes: 3, Seen: seenOf(t, path, ""), CopyTo: path + ".phos-T"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := restoreOne(ended, order, contentFile(t, "our")); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	if got := namesIn(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("got names %v, want only the file", got)
	}
	write(t, order.CopyTo, "taken")
	order.Seen = seenOf(t, path, "")
	if err := restoreOne(t.Context(), order, contentFile(t, "our")); !errors.Is(err, os.ErrExist) {
		t.Errorf("got error %v, want %v", err, os.ErrExist)
	}
	if got, _ := os.ReadFile(path); string(got) != "theirs" || len(namesIn(t, dir)) != 2 {
		t.Errorf("the file has %q; names are %v", got, namesIn(t, dir))
	}
}

// listFor is an access control list: the owner and one user may do all, the group may do nothing.
// Its form is that of linux/posix_acl_xattr.h.
func listFor(user uint32) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range []struct {
		tag, rights uint16
		id          uint32
	}{{1, 7, 0xffffffff}, {2, 7, user}, {4, 0, 0xffffffff}, {16, 7, 0xffffffff}, {32, 0, 0xffffffff}} {
		list = binary.LittleEndian.AppendUint16(list, entry.tag)
		list = binary.LittleEndian.AppendUint16(list, entry.rights)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	return list
}

// TestOwnerOfCopy: a copy has the owner, group and permissions of the file as far as the user may
// give them, and no other user may read it.
func TestOwnerOfCopy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as other users")
	}
	const user, own, foreign = 54321, 777, 778
	for _, test := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		list     []byte
		// want are owner, group and permissions of the copy.
		wantUID, wantGID uint32
		wantMode         uint32
	}{
		{"of the user", user, user, 0o640, nil, user, user, 0o640},
		{"of a group of the user", user, own, 0o640, nil, user, own, 0o640},
		{"of another group", user, foreign, 0o640, nil, user, user, 0o600},
		{"of another group, readable by all", user, foreign, 0o644, nil, user, user, 0o644},
		{"readable by all but a group", user, foreign, 0o604, nil, user, user, 0o600},
		{"of another user", 1234, own, 0o460, nil, user, own, 0o660},
		{"with a list", user, own, 0o640, listFor(4321), user, own, 0o770},
		{"with a list, of another group", user, foreign, 0o600, listFor(4321), user, user, 0o700},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := openDirectory(t)
			path := filepath.Join(dir, "file")
			write(t, path, "theirs")
			if err := errors.Join(os.Chown(path, test.uid, test.gid), os.Chmod(path, test.mode),
				os.Chmod(dir, 0o777)); err != nil {
				t.Fatal(err)
			}
			if test.list != nil {
				if err := unix.Setxattr(path, accessList, test.list, 0); err != nil {
					t.Skipf("no lists on this file system: %v", err)
				}
			}
			// New files of this directory can be read by one more user.
			_ = unix.Setxattr(dir, "system.posix_acl_default", listFor(4322), 0)
			copied := path + ".phos-T"
			as := fsuid.Rights{UID: user, GID: user, Groups: []uint32{own}}
			order := Written{Path: path, Bytes: 3, Mode: 0o600, Seen: seenOf(t, path, ""), CopyTo: copied}
			content := contentFile(t, "our")
			if err := as.Do(func() error { return restoreOne(t.Context(), order, content) }); err != nil {
				t.Fatal(err)
			}
			var got unix.Stat_t
			if err := unix.Stat(copied, &got); err != nil {
				t.Fatal(err)
			}
			if got.Uid != test.wantUID || got.Gid != test.wantGID || got.Mode&0o777 != test.wantMode {
				t.Errorf("got %d:%d %o, want %d:%d %o", got.Uid, got.Gid, got.Mode&0o777,
					test.wantUID, test.wantGID, test.wantMode)
			}
			list := make([]byte, maxAccessList)
			size, _ := unix.Getxattr(copied, accessList, list)
			if want := test.list != nil && test.gid == own; want != (size > 0) || want && !slices.Equal(list[:size], test.list) {
				t.Errorf("the copy has the list %x", list[:max(size, 0)])
			}
		})
	}
}

// openDirectory returns a directory that every user can reach, on a disk.
func openDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "phos-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
