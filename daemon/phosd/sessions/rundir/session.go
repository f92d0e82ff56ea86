package rundir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Paths are the files of one session.
type Paths struct {
	Session, Arena string
}

// Owner is the user whose program a session serves.
type Owner struct {
	UID, GID uint32
}

// Paths returns the paths of a session's files, which need not exist.
func (d *Dir) Paths(id uint64) Paths {
	dir := d.sessionDir(id)
	return Paths{Session: filepath.Join(dir, "session"), Arena: filepath.Join(dir, "arena")}
}

// Create makes the files of a session. The session file is allocated in full, so that touching it
// never fails later: a full tmpfs is unix.ENOSPC here. The arena is a hole that the worker fills as
// the program allocates.
func (d *Dir) Create(id uint64, owner Owner, arenaBytes uint64) (Paths, error) {
	dir := d.sessionDir(id)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return Paths{}, fmt.Errorf("session %d: %w", id, err)
	}
	paths := d.Paths(id)
	err := errors.Join(
		d.createSharing(owner),
		os.Chmod(dir, 0o711), // whatever the umask
		createFile(paths.Session, owner, wire.SessionBytes, true),
		createFile(paths.Arena, owner, arenaBytes, false))
	if err != nil {
		return Paths{}, errors.Join(fmt.Errorf("session %d: %w", id, err), d.Remove(id))
	}
	return paths, nil
}

// createFile creates a file of an owner; with allocate, writes to it cannot run out of memory.
func createFile(path string, owner Owner, bytes uint64, allocate bool) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(int64(bytes)); err != nil {
		return err
	}
	if allocate {
		if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(bytes)); err != nil {
			return fmt.Errorf("allocate %s: %w", path, err)
		}
	}
	return file.Chown(int(owner.UID), int(owner.GID))
}

// MarkDead tells a program that its worker is dead. It writes the file and does not map it, because
// its owner may truncate it at any time.
func (d *Dir) MarkDead(id uint64) error { return d.writeWord(id, wire.WordDead, 1) }

// MarkFailed makes every later call of a program return this result.
func (d *Dir) MarkFailed(id uint64, result abi.Result) error {
	return d.writeWord(id, wire.WordSticky, uint32(result))
}

// writeWord sets a word in the header of a session file. A removed session is not an error.
func (d *Dir) writeWord(id uint64, word int64, value uint32) error {
	file, err := os.OpenFile(d.Paths(id).Session, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("session %d: %w", id, err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.LittleEndian.AppendUint32(nil, value), wire.HeaderOffset+word); err != nil {
		return fmt.Errorf("session %d: %w", id, err)
	}
	return nil
}

// Remove deletes everything of a session. A program that still has the files mapped keeps its
// mapping. Remove needs no free file descriptor, so that a session that could not be made for lack
// of descriptors leaves nothing behind.
func (d *Dir) Remove(id uint64) error {
	paths := d.Paths(id)
	return errors.Join(
		removeIfThere(paths.Session),
		removeIfThere(paths.Arena),
		os.RemoveAll(d.sessionDir(id)),
		removeIfThere(d.Control(id)),
		removeIfThere(d.recordPath(id)),
		removeIfThere(d.recordPath(id)+unfinished))
}

// Sessions lists the numbers of all sessions of which a file exists.
func (d *Dir) Sessions() ([]uint64, error) {
	var found []uint64
	seen := make(map[uint64]bool)
	for _, where := range []struct{ dir, suffix string }{
		{d.sessions(), ""},
		{d.control(), ".sock"},
		{d.state(), ".json"},
		{d.state(), ".json" + unfinished},
	} {
		entries, err := os.ReadDir(where.dir)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, entry := range entries {
			name, ours := strings.CutSuffix(entry.Name(), where.suffix)
			id, err := strconv.ParseUint(name, 10, 64)
			if ours && err == nil && !seen[id] {
				seen[id] = true
				found = append(found, id)
			}
		}
	}
	return found, nil
}

func (d *Dir) sessionDir(id uint64) string {
	return filepath.Join(d.sessions(), strconv.FormatUint(id, 10))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
