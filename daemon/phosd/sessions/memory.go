package sessions

import (
	"log/slog"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/ticks"
)

const (
	// The memory for sessions is looked at every maxLook while there are no sessions or it is nearly
	// empty, and every minLook while more than one part in busyPart of it is used. Then the files of
	// sessions are looked at, too.
	maxLook, minLook = time.Second, 50 * time.Millisecond
	busyPart         = 4
	// fillRate is how many bytes a second programs can fill at most: as fast as a large machine
	// takes its memory into use.
	fillRate = 16 << 30
	// policeTimeout is how long a new session waits for memory that others have taken unasked.
	policeTimeout = 2 * time.Second
	// maxRevoked is how many ended sessions with open files are watched: each takes two descriptors.
	maxRevoked = 1024
	// slackBytes is what files may hold beyond what was reserved in them, as the rest of huge pages.
	slackBytes = 16 << 20
)

// TmpfsLimits returns the limits that the kernel enforces. A user's limit is what as many programs
// are given as a user may have, or what users.pinned_memory says if that is less.
func TmpfsLimits(settings config.Config) rundir.Limits {
	limits := settings.Sessions
	user := uint64(limits.ProgramsPerUser) * (wire.SessionBytes + uint64(limits.ArenaSize))
	if pinned := uint64(settings.Users.PinnedMemory); pinned > 0 {
		user = min(user, pinned+slackBytes)
	}
	return rundir.Limits{TmpfsBytes: uint64(limits.TmpfsSize), UserBytes: user}
}

// givenBytes returns what the session's files may hold: what was reserved in them, where that is
// known, and at most their length. It returns 0 if its record does not say.
func (m *Sessions) givenBytes(s *Session) uint64 {
	if s.record.ArenaBytes == 0 {
		return 0
	}
	given := wire.SessionBytes + s.record.ArenaBytes
	if accounts := m.devices.Ledger(); accounts.CountsHost() {
		given = min(given, accounts.HostUsage(s.slot.number)+slackBytes)
	}
	return given
}

// WatchMemory looks again and again whether a program fills the memory for sessions, until phosd
// ends. Workers keep to their users' shares, but a program owns its session's files: it can write
// where nothing was reserved, and make them longer.
func (m *Sessions) WatchMemory() {
	wait := maxLook
	for ticks.Pause(m.life, wait) == nil {
		if space, err := m.space(); err != nil {
			wait = minLook
		} else {
			m.police(space)
			wait = m.untilNextLook(space)
		}
	}
}

// space returns the room of the memory for sessions, and logs an error.
func (m *Sessions) space() (rundir.Space, error) {
	space, err := m.dir.Space()
	if err != nil {
		m.log.Error("watch the memory for sessions", "error", err)
	}
	return space, err
}

// untilNextLook returns how long memory with this room may be left alone.
func (m *Sessions) untilNextLook(space rundir.Space) time.Duration {
	if m.Count() == 0 {
		return maxLook
	}
	return untilBusy(space)
}

// untilBusy returns the time after which programs can have filled so much of the memory that the
// files of sessions must be looked at.
func untilBusy(space rundir.Space) time.Duration {
	seconds := float64(beforeBusy(space)) / fillRate
	return min(max(time.Duration(seconds*float64(time.Second)), minLook), maxLook)
}

// beforeBusy returns how many bytes may be filled before the files of sessions are looked at; 0:
// they are looked at now.
func beforeBusy(space rundir.Space) uint64 {
	used, busy := space.AllBytes-space.FreeBytes, space.AllBytes/busyPart
	return busy - min(busy, used)
}

// policeMemory ends the sessions that hold more than was reserved for them, and reports whether it
// frees any memory.
func (m *Sessions) policeMemory() (frees bool) {
	space, err := m.space()
	return err == nil && m.police(space)
}

// police is policeMemory for memory with this room.
func (m *Sessions) police(space rundir.Space) (frees bool) {
	frees = m.revoked.trim(m.log, space)
	if beforeBusy(space) > 0 {
		return frees
	}
	for _, s := range m.All() {
		frees = m.checkMemory(s) || frees
	}
	return frees
}

// checkMemory ends a session that holds more than it was given, and reports whether it does.
func (m *Sessions) checkMemory(s *Session) bool {
	held, err := m.dir.UsedBytes(s.record.Session)
	given := m.givenBytes(s)
	if err != nil || given == 0 || !rundir.Exceeds(held, given) { // an error: it has most likely just ended
		return false
	}
	if s.overfull.Swap(true) {
		return true // it is about to end
	}
	m.log.Error("session files filled beyond what was reserved; ending the session", "session", s.record.Session,
		"pid", s.record.Program.PID, "uid", s.record.Owner.UID, "command", s.record.Command, "bytes", held, "given", given)
	s.kill()
	return true
}

// Usage is what the programs of a user hold.
type Usage struct {
	// PinnedBytes is memory of their sessions, DeviceBytes of the GPU of which they hold most.
	PinnedBytes, DeviceBytes uint64
	// DeviceLimit is how much of that GPU they may hold; 0: all of it.
	DeviceLimit uint64

	devices []uint64 // bytes of each GPU
}

// Usage returns what the programs of each user hold.
func (m *Sessions) Usage() map[uint32]Usage {
	all := make(map[uint32]Usage)
	for _, s := range m.All() {
		uid := s.record.Owner.UID
		use := all[uid]
		if bytes, err := m.dir.UsedBytes(s.record.Session); err == nil { // an error: it has just ended
			use.PinnedBytes += bytes
		}
		use.addDevices(m.devices.Ledger(), s.slot.number)
		all[uid] = use
	}
	return all
}

// addDevices counts the GPUs of a session's slot.
func (u *Usage) addDevices(accounts *ledger.Ledger, slot int) {
	if u.devices == nil {
		u.devices = make([]uint64, accounts.GPUs())
	}
	for gpu := range u.devices {
		u.devices[gpu] += accounts.SlotUsage(gpu, slot)
		if u.devices[gpu] > u.DeviceBytes {
			u.DeviceBytes = u.devices[gpu]
			_, u.DeviceLimit, _ = accounts.Share(gpu, slot)
		}
	}
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
	if trim(files, m.log) {
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
// longer. If memory is short it shrinks all: only programs that have lost their workers can still
// use them.
func (r *revoked) trim(log *slog.Logger, space rundir.Space) (frees bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if space.HalfFull() {
		for _, files := range r.files {
			if err := files.Shrink(); err != nil {
				log.Error("shrink files of an ended session", "error", err)
			}
			frees = true
		}
	}
	kept := r.files[:0]
	for _, files := range r.files {
		if trim(files, log) {
			kept = append(kept, files)
		}
	}
	clear(r.files[len(kept):])
	r.files = kept
	return frees
}

// trim truncates what a program has added to files, and reports whether they must be watched
// further.
func trim(files *rundir.Revoked, log *slog.Logger) bool {
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
