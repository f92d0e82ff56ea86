package rundir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness/scarce"
)

func openTest(t *testing.T, path string, tmpfsBytes uint64) *Dir {
	t.Helper()
	dir, err := Open(path, Limits{TmpfsBytes: tmpfsBytes, UserBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dir.Close()
		_ = unix.Unmount(filepath.Join(path, "sessions"), unix.MNT_DETACH)
	})
	return dir
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users, mounts")
	}
}

func TestSessionFiles(t *testing.T) {
	needRoot(t)
	dir := openTest(t, t.TempDir(), 0)
	id, err := dir.NextSession()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := dir.Create(id, Owner{UID: 65534, GID: 65534}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var info unix.Stat_t
	if err := unix.Stat(paths.Session, &info); err != nil {
		t.Fatal(err)
	}
	if info.Uid != 65534 || info.Mode&0o777 != 0o600 || info.Size != wire.SessionBytes ||
		info.Blocks*512 < wire.SessionBytes {
		t.Errorf(
			"session file: uid %d, mode %o, %d bytes, %d allocated",
			info.Uid,
			info.Mode,
			info.Size,
			info.Blocks*512,
		)
	}
	if err := unix.Stat(paths.Arena, &info); err != nil {
		t.Fatal(err)
	}
	if info.Size != 1<<30 || info.Blocks != 0 {
		t.Errorf("arena: %d bytes, %d blocks; want a hole of 1 GiB", info.Size, info.Blocks)
	}
	if err := dir.MarkDead(id); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(paths.Session)
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(content[wire.WordDead:]); got != 1 {
		t.Errorf("dead word is %d, want 1", got)
	}
	content[wire.WordDead] = 0
	if !bytes.Equal(content, make([]byte, wire.SessionBytes)) {
		t.Error("marking it dead changed other bytes")
	}
	enough := scarce.Files(t, 0) // which is why a session may have to be removed
	if err := dir.Remove(id); err != nil {
		t.Fatal(err)
	}
	enough()
	if left, err := dir.Sessions(); err != nil || len(left) != 0 {
		t.Errorf("after removal: %v, %v", left, err)
	}
}

// A user owns the file but not the directory. What the user can do to the file must not lead phosd
// elsewhere.
func TestMarkDeadFollowsNoLink(t *testing.T) {
	dir := openTest(t, t.TempDir(), 0)
	if err := os.Mkdir(dir.sessionDir(7), 0o755); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, dir.Paths(7).Session); err != nil {
		t.Fatal(err)
	}
	if err := dir.MarkDead(7); err == nil {
		t.Error("no error for a symbolic link")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the victim is %q (%v)", text, err)
	}
}

func TestFullTmpfs(t *testing.T) {
	needRoot(t)
	dir := openTest(t, t.TempDir(), wire.SessionBytes*3/2)
	if len(dir.Warnings) > 0 {
		t.Skip("no tmpfs: ", dir.Warnings)
	}
	if _, err := dir.Create(1, Owner{}, 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Create(2, Owner{}, 1<<30); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("second session: %v, want ENOSPC", err)
	}
	if left, err := dir.Sessions(); err != nil || len(left) != 1 {
		t.Errorf("sessions left: %v, %v; want the first only", left, err)
	}
}

func TestOnePhosdPerDirectory(t *testing.T) {
	path := t.TempDir()
	openTest(t, path, 0)
	if _, err := Open(path, Limits{}); !errors.Is(err, ErrBusy) {
		t.Errorf("second open: %v, want ErrBusy", err)
	}
}

// TestRemoveAll: what sessions need is removed, but not the socket of a restorer, which may live
// on. A file that does not belong there is reported.
func TestRemoveAll(t *testing.T) {
	dir := openTest(t, t.TempDir(), 0)
	restorer, foreign := dir.Restorer("0.1-x"), filepath.Join(dir.control(), "foreign")
	for _, path := range []string{restorer, foreign} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := dir.RemoveAll(); err != nil {
		t.Errorf("with a restorer: %v", err)
	}
	if _, err := os.Stat(restorer); err != nil {
		t.Error(err)
	}
	if err := os.Remove(restorer); err != nil {
		t.Fatal(err)
	}
	if err := dir.RemoveAll(); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("with another file: got %v, want ENOTEMPTY", err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := dir.RemoveAll(); err != nil {
		t.Errorf("with nothing: %v", err)
	}
	if _, err := os.Stat(dir.control()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

func TestRecords(t *testing.T) {
	dir := openTest(t, t.TempDir(), 0)
	want := Record{
		Session: 3, Owner: Owner{UID: 5, GID: 6}, Groups: []uint32{4}, Program: proc.Identity{PID: 7, StartTicks: 8},
		Command: "a b", Started: time.Unix(9, 0).UTC(),
	}
	if err := dir.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.Load(3); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v", got, err)
	}
	if _, err := dir.Load(4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing record: %v", err)
	}
	if err := os.WriteFile(dir.recordPath(5), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Load(5); err == nil {
		t.Error("a torn record gave no error")
	}
	// The counter is lost: numbers must still not repeat.
	next, err := dir.NextSession()
	if err != nil || next != 6 {
		t.Errorf("next session is %d (%v), want 6", next, err)
	}
	if next, err = dir.NextSession(); err != nil || next != 7 {
		t.Errorf("then %d (%v), want 7", next, err)
	}
}

func TestSessionNumbersAtOnce(t *testing.T) {
	dir := openTest(t, t.TempDir(), 0)
	const each, many = 20, 8
	numbers := make(chan uint64, each*many)
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			for range each {
				id, err := dir.NextSession()
				if err != nil {
					t.Error(err)
				}
				numbers <- id
			}
		})
	}
	asking.Wait()
	close(numbers)
	seen := make(map[uint64]bool)
	for id := range numbers {
		if seen[id] {
			t.Errorf("number %d was given twice", id)
		}
		seen[id] = true
	}
}

// TestUnfinishedRecord: a phosd that is killed while it writes a record leaves a session that is
// found and can be removed.
func TestUnfinishedRecord(t *testing.T) {
	needRoot(t)
	dir := openTest(t, t.TempDir(), 0)
	left := dir.recordPath(28) + unfinished
	if err := os.WriteFile(left, []byte(`{"session": 2`), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := dir.Sessions(); err != nil || len(found) != 1 || found[0] != 28 {
		t.Errorf("sessions %v, %v", found, err)
	}
	if err := dir.Remove(28); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

// TestSharingAfterCrash: a phosd was killed after it had made a user's directory and before it gave
// it to the user. The next session of the user gives it.
func TestSharingAfterCrash(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: gives directories to users")
	}
	dir := openTest(t, t.TempDir(), 0)
	const uid = 61280
	if err := os.MkdirAll(dir.Sharing(uid), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Create(1, Owner{UID: uid, GID: uid}, 1<<20); err != nil {
		t.Fatal(err)
	}
	var info unix.Stat_t
	if err := unix.Stat(dir.Sharing(uid), &info); err != nil || info.Uid != uid || info.Mode&0o777 != 0o700 {
		t.Errorf("the directory is user %d's, mode %o, %v", info.Uid, info.Mode&0o777, err)
	}
}
