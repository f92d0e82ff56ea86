package sessions

import (
	"log/slog"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	memoryInterval = time.Second
	// maxRevoked is how many ended sessions with open files are watched: each takes two descriptors.
	maxRevoked = 1024
)

// TmpfsLimits returns the limits that the kernel enforces: no user holds more than the maximum
// number of programs is given.
func TmpfsLimits(limits config.Sessions) rundir.Limits {
	perSession := wire.SessionBytes + uint64(limits.ArenaSize)
	return rundir.Limits{TmpfsBytes: uint64(limits.TmpfsSize), UserBytes: uint64(limits.PerUser) * perSession}
}

// givenBytes returns what the session's files may hold; 0 if its record does not say.
func (s *Session) givenBytes() uint64 {
	if s.record.ArenaBytes == 0 {
		return 0
	}
	return wire.SessionBytes + s.record.ArenaBytes
}

// WatchMemory looks every second whether a program fills the memory for sessions, until phosd ends.
// A program owns its session's files, so it can make them longer.
func (m *Sessions) WatchMemory() {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case <-tick.C:
		}
		m.revoked.trim(m.log)
		half, err := m.dir.HalfFull()
		if err != nil {
			m.log.Error("watch the memory for sessions", "error", err)
		}
		if !half {
			continue
		}
		for _, s := range m.All() {
			m.checkMemory(s)
		}
	}
}

// checkMemory ends a session that holds more than it was given.
func (m *Sessions) checkMemory(s *Session) {
	held, err := m.dir.UsedBytes(s.record.Session)
	given := s.givenBytes()
	if err != nil || given == 0 || !rundir.Exceeds(held, given) { // an error: it has most likely just ended
		return
	}
	m.log.Error("session files made longer by their program; ending the session", "session", s.record.Session,
		"pid", s.record.Program.PID, "uid", s.record.Owner.UID, "command", s.record.Command, "bytes", held, "given", given)
	s.kill()
}

// revoked are the files of ended sessions that programs still have open.
type revoked struct {
	mu    sync.Mutex // guards files
	files []*rundir.Revoked
}

// revoke takes the files of an ended session away from their owner, and watches them as long as a
// program has them open.
func (m *Sessions) revoke(s *Session) {
	if s.record.ArenaBytes == 0 {
		return
	}
	files, err := m.dir.Revoke(s.record.Session, s.record.ArenaBytes)
	if err != nil {
		m.log.Error("revoke session files", "session", s.record.Session, "error", err)
		return
	}
	r := &m.revoked
	r.mu.Lock()
	defer r.mu.Unlock()
	if inUse(files, m.log) {
		r.files = append(r.files, files)
	}
	if len(r.files) > maxRevoked {
		oldest := r.files[0]
		r.files = r.files[1:]
		m.log.Warn("too many ended sessions with open files; oldest truncated", "error", oldest.Truncate())
		_ = oldest.Close()
	}
}

// trim closes the files that are no longer open elsewhere, and truncates those that were made
// longer.
func (r *revoked) trim(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.files[:0]
	for _, files := range r.files {
		if inUse(files, log) {
			kept = append(kept, files)
		}
	}
	clear(r.files[len(kept):])
	r.files = kept
}

// inUse trims files and reports whether they must be watched further.
func inUse(files *rundir.Revoked, log *slog.Logger) bool {
	trimmed, done, err := files.Trim()
	if err != nil {
		log.Error("trim files of an ended session", "error", err)
	}
	if trimmed > 0 {
		log.Warn("files of an ended session made longer by their program; truncated", "bytes", trimmed)
	}
	return !done
}

func (r *revoked) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, files := range r.files {
		_ = files.Close()
	}
	r.files = nil
}
