package sessions

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// RestoreOptions say which session is restored.
type RestoreOptions struct {
	Owner  rundir.Owner
	Groups []uint32
	// ArenaBytes is the size of the session's arena.
	ArenaBytes uint64
	// Restore is for the worker, Packs are the image's packs.
	Restore boot.Restore
	Packs   []*os.File
}

// Restoring is a session that is being restored: it has its files and its worker, but no program
// until Attach.
type Restoring struct {
	sessions *Sessions
	session  *Session
	// SessionFile and ArenaFile take the place of the files that the program had mapped.
	SessionFile, ArenaFile *os.File
	// life is phosd's end of the worker's lifeline.
	life     *os.File
	attached sync.Once
}

// Restore starts a worker that restores a session.
func (m *Sessions) Restore(options RestoreOptions) (_ *Restoring, err error) {
	given, err := m.reserve(options.Owner.UID)
	if err != nil {
		return nil, err
	}
	r := &Restoring{sessions: m, session: newSession(m.dir, rundir.Record{
		Owner: options.Owner, Groups: known(options.Groups), Gpus: m.options.Config.Gpus.Offer, Started: time.Now(),
		Ledger: given.number, ArenaBytes: options.ArenaBytes,
	}, given)}
	defer func() {
		if err != nil {
			r.Abort()
		}
	}()
	record := &r.session.record
	if record.Session, err = m.dir.NextSession(); err != nil {
		return nil, err
	}
	paths, err := m.dir.Create(record.Session, record.Owner, record.ArenaBytes)
	if err != nil {
		return nil, err
	}
	if r.SessionFile, err = os.OpenFile(paths.Session, os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
		return nil, err
	}
	if r.ArenaFile, err = os.OpenFile(paths.Arena, os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
		return nil, err
	}
	if err := r.spawn(options); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return r, nil
}

// spawn gives the session its worker, with the packs of the image.
func (r *Restoring) spawn(options RestoreOptions) error {
	lifeRead, lifeWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeRead.Close()
	r.life = lifeWrite
	config := r.sessions.workerConfig(r.session)
	config.Restore = &options.Restore
	return r.sessions.assignWorker(r.session, config, lifeRead, options.Packs...)
}

// Worker returns the connection to the worker.
func (r *Restoring) Worker() api.WorkerClient { return r.session.control.Worker }

// Attach names the session's program. give passes the program on to the worker, whose socket is
// control. Then the session is registered like any other.
func (r *Restoring) Attach(id proc.Identity, give func(control string, program *proc.Handle) error) error {
	program, err := proc.Open(id)
	if err != nil {
		return err
	}
	m, s := r.sessions, r.session
	s.program = program
	s.record.Program, s.record.Command = id, program.Command(commandBytes)
	s.slot.program.By(id)
	// From here on the next phosd adopts the session, or finds that its worker or its program is gone.
	if err := m.dir.Save(s.record); err != nil {
		return err
	}
	// While the worker takes the program, it maps the memory again that both share.
	m.lend(s)
	if err := give(s.controlPath, program); err != nil {
		return err
	}
	r.attached.Do(func() {
		m.metrics.SessionRestored()
		m.watch(s)
		r.closeFiles()
		m.log.Info("session restored", "session", s.record.Session, "pid", id.PID, "uid", s.record.Owner.UID,
			"worker", s.record.Worker.PID, "command", s.record.Command)
	})
	return nil
}

// closeFiles closes what is needed only until there is a program.
func (r *Restoring) closeFiles() {
	for _, file := range []*os.File{r.SessionFile, r.ArenaFile, r.life} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// Abort ends the worker and removes everything of the session.
func (r *Restoring) Abort() {
	m, s := r.sessions, r.session
	attached := true
	r.attached.Do(func() { attached = false })
	if attached {
		s.kill()
		<-s.ended
		return
	}
	r.closeFiles()
	if s.worker != nil {
		s.kill()
	}
	if s.reap != nil {
		_ = s.reap() // it was killed, or ended by itself
	}
	if s.worker != nil {
		_ = s.worker.Close()
	}
	if s.program != nil {
		_ = s.program.Close()
	}
	if s.control != nil {
		_ = s.control.Close()
	}
	close(s.detached) // ends the lender's goroutine; the session was never registered
	m.release(s.slot)
	if s.record.Session == 0 {
		return
	}
	if err := m.dir.Remove(s.record.Session); err != nil {
		m.log.Error("remove session", "session", s.record.Session, "error", err)
	}
}
