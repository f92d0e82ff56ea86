package rundir

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
)

// TestRevoke checks that a process with a session's file open cannot hold more memory than the file
// had.
func TestRevoke(t *testing.T) {
	needRoot(t)
	const arenaBytes = 1 << 20
	dir := openTest(t, t.TempDir(), 0)
	paths, err := dir.Create(1, Owner{UID: 65534, GID: 65534}, arenaBytes)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := dir.UsedBytes(1); err != nil || held != wire.SessionBytes {
		t.Errorf("new session: got %d bytes, %v; want %d", held, err, uint64(wire.SessionBytes))
	}
	program, err := os.OpenFile(paths.Arena, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := dir.Revoke(1, arenaBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Remove(1); err != nil {
		t.Fatal(err)
	}
	if trimmed, done, err := revoked.Trim(); trimmed != 0 || done || err != nil {
		t.Errorf("open elsewhere: trimmed %d, done %v, %v", trimmed, done, err)
	}
	if err := unix.Fallocate(int(program.Fd()), 0, 0, 64<<20); err != nil {
		t.Fatal(err)
	}
	if trimmed, done, err := revoked.Trim(); trimmed != 63<<20 || done || err != nil {
		t.Errorf("made longer: trimmed %d, done %v, %v", trimmed, done, err)
	}
	if info, err := program.Stat(); err != nil || info.Size() != arenaBytes || info.Mode().Perm() != 0 {
		t.Errorf("after Trim: got %v, %v; want %d bytes and mode 0", info, err, arenaBytes)
	}
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	if trimmed, done, err := revoked.Trim(); trimmed != 0 || !done || err != nil {
		t.Errorf("closed: trimmed %d, done %v, %v", trimmed, done, err)
	}
	if _, err := dir.UsedBytes(1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("UsedBytes of a removed session: got %v, want ErrNotExist", err)
	}
}
