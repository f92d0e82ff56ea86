package phosd

import (
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	holdingsInterval = time.Second
	// maxRetired bounds the ended sessions that are looked after: each costs two descriptors.
	maxRetired = 1024
)

// tmpfsLimits are those that the kernel shall enforce: no user holds more than all the programs he
// may run are given.
func tmpfsLimits(limits config.Sessions) rundir.Limits {
	each := wire.SessionBytes + uint64(limits.ArenaSize)
	return rundir.Limits{TmpfsBytes: uint64(limits.TmpfsSize), UserBytes: uint64(limits.PerUser) * each}
}

// givenBytes is what the session's files may hold; 0 when its record does not say.
func (s *session) givenBytes() uint64 {
	if s.record.ArenaBytes == 0 {
		return 0
	}
	return wire.SessionBytes + s.record.ArenaBytes
}

// watchHoldings looks every second whether a program fills the memory for sessions, which it can:
// its files are its own, so that it may lengthen them.
func (d *Daemon) watchHoldings() {
	tick := time.NewTicker(holdingsInterval)
	defer tick.Stop()
	for {
		select {
		case <-d.stopping.Done():
			return
		case <-tick.C:
		}
		d.retired.trim(d)
		half, err := d.dir.HalfFull()
		if err != nil {
			d.log.Error("watch the memory for sessions", "error", err)
		}
		if !half {
			continue
		}
		for _, s := range d.table.all() {
			d.checkHolding(s)
		}
	}
}

// checkHolding ends a session that holds more than it was given.
func (d *Daemon) checkHolding(s *session) {
	held, err := d.dir.Held(s.record.Session)
	given := s.givenBytes()
	if err != nil || given == 0 || !rundir.Exceeds(held, given) { // gone in this moment, most likely
		return
	}
	d.log.Error("a program made its session's files longer; the session ends", "session", s.record.Session,
		"pid", s.record.Program.PID, "uid", s.record.Owner.UID, "command", s.record.Command, "bytes", held, "given", given)
	s.kill()
}

// retired are the ended sessions whose files somebody still has open.
type retired struct {
	mu    sync.Mutex // guards files
	files []*rundir.Retired
}

// retire lets go of an ended session's files, now or as soon as nobody has them open.
func (d *Daemon) retire(s *session) {
	if s.record.ArenaBytes == 0 {
		return
	}
	files, err := d.dir.Retire(s.record.Session, s.record.ArenaBytes)
	if err != nil {
		d.log.Error("retire", "session", s.record.Session, "error", err)
		return
	}
	d.retired.mu.Lock()
	defer d.retired.mu.Unlock()
	if d.retired.keeps(d, files) {
		d.retired.files = append(d.retired.files, files)
	}
	if len(d.retired.files) > maxRetired {
		oldest := d.retired.files[0]
		d.retired.files = d.retired.files[1:]
		d.log.Warn("too many ended sessions have their files open; emptied the oldest", "error", oldest.Empty())
		_ = oldest.Close()
	}
}

func (r *retired) trim(d *Daemon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.files[:0]
	for _, files := range r.files {
		if r.keeps(d, files) {
			kept = append(kept, files)
		}
	}
	clear(r.files[len(kept):])
	r.files = kept
}

// keeps says whether files must be looked at again.
func (*retired) keeps(d *Daemon, files *rundir.Retired) bool {
	trimmed, done, err := files.Trim()
	if err != nil {
		d.log.Error("look after an ended session's files", "error", err)
	}
	if trimmed > 0 {
		d.log.Warn("cut the files of an ended session that its program made longer", "bytes", trimmed)
	}
	return !done
}

func (r *retired) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, files := range r.files {
		_ = files.Close()
	}
	r.files = nil
}
