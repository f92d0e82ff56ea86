package codestore

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/api"
)

// verified is what was found when a file was read: whether its content had the hash, and in which
// state it was. So a file is read once after a start, and again only when it has changed.
type verified struct {
	// mu is held while the file is read: others wait for the result. It is held while the file gets
	// its name or is removed, too.
	mu    sync.Mutex
	state fileState
	whole bool
	used  time.Time // when it was last found whole; zero: not yet
}

// fileState changes when a file is replaced or written to.
type fileState struct {
	inode, bytes      uint64
	modified, changed unix.Timespec
}

// verifiedOf returns what is known about the file of a path.
func (s *Store) verifiedOf(path string) *verified {
	known, _ := s.verified.LoadOrStore(path, new(verified))
	return known.(*verified) //nolint:forcetypeassert // the map has no other values
}

// note records that the content of an open file has the hash. mu is held.
func (v *verified) note(file *os.File) {
	v.state, _ = stateOf(file) // of an error, a state that no file has
	v.whole, v.used = true, time.Now()
}

// lastUse returns when a file was last used: found whole, or else received.
func (v *verified) lastUse(file os.FileInfo) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lastUseLocked(file)
}

// lastUseLocked is lastUse with mu held.
func (v *verified) lastUseLocked(file os.FileInfo) time.Time {
	if v.used.After(file.ModTime()) {
		return v.used
	}
	return file.ModTime()
}

// removeUnused removes a file unless it was used after a time.
func (v *verified) removeUnused(path string, last time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil || v.lastUseLocked(info).After(last) {
		return false
	}
	v.state, v.whole = fileState{}, false
	return os.Remove(path) == nil
}

// check reports whether the content of an open file is what its name says.
func (v *verified) check(file *os.File, ref *api.CodeRef) (whole bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Before the file is read: if it changes meanwhile, it is read again the next time.
	state, err := stateOf(file)
	if err != nil || state.bytes != ref.GetBytes() {
		return false, err
	}
	if v.state == state {
		v.noteUse()
		return v.whole, nil
	}
	hash := blake3.New()
	if _, err := io.Copy(hash, io.NewSectionReader(file, 0, int64(state.bytes))); err != nil {
		return false, fmt.Errorf("read code: %w", err)
	}
	v.state, v.whole = state, bytes.Equal(hash.Sum(nil), ref.GetHash())
	v.noteUse()
	return v.whole, nil
}

// noteUse records that a whole file was asked for. mu is held.
func (v *verified) noteUse() {
	if v.whole {
		v.used = time.Now()
	}
}

// stateOf returns the state of an open file.
func stateOf(file *os.File) (fileState, error) {
	var is unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &is); err != nil {
		return fileState{}, fmt.Errorf("read code: %w", err)
	}
	return fileState{is.Ino, uint64(is.Size), is.Mtim, is.Ctim}, nil
}
