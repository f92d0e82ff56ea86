package phosd

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/workerclient"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// returning is a session on its way back: its files and its worker, and no program yet.
type returning struct {
	*workerclient.Return
	daemon *Daemon
	half   *image.GPUHalf
	files  map[string]*os.File
	// life is phosd's end of the worker's life line.
	life *os.File
	s    *session
	once sync.Once
}

// revive starts a worker that brings a session back. It belongs to nobody until Attach.
func (d *Daemon) revive(
	ctx context.Context,
	half *image.GPUHalf,
	source ckpt.Source,
	eager bool,
) (_ ckpt.Returning, err error) {
	owner := source.Manifest.Owner
	given, err := d.admit(owner.UID)
	if err != nil {
		return nil, err
	}
	r := &returning{daemon: d, half: half, files: make(map[string]*os.File)}
	r.s = &session{
		record: rundir.Record{
			Owner: rundir.Owner{UID: owner.UID, GID: owner.GID}, Gpus: d.options.Config.Gpus.Offer, Started: time.Now(),
			Ledger: given.slot, ArenaBytes: half.ArenaBytes,
		},
		ticket: given, gone: make(chan struct{}), abandoned: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			r.Abort()
		}
	}()
	if r.s.record.Session, err = d.dir.NextSession(); err != nil {
		return nil, err
	}
	paths, err := d.dir.Create(r.s.record.Session, r.s.record.Owner, half.ArenaBytes)
	if err != nil {
		return nil, err
	}
	for old, path := range map[string]string{half.SessionPath: paths.Session, half.ArenaPath: paths.Arena} {
		if r.files[old], err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
			return nil, err
		}
	}
	if err := r.spawn(source, eager); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	r.Return = workerclient.Watch(ctx, r.s.control.Worker)
	return r, nil
}

// spawn gives the session its worker, with the packs of the image.
func (r *returning) spawn(source ckpt.Source, eager bool) error {
	d := r.daemon
	lifeRead, lifeWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeRead.Close()
	r.life = lifeWrite
	config := d.workerConfig(r.s, source.Manifest.Owner.Groups)
	config.ArenaBytes = r.half.ArenaBytes
	config.Restore = &worker.Restore{Tree: r.half.Tree, Packs: len(source.Packs), Eager: eager}
	return d.man(r.s, config, lifeRead, source.Packs...)
}

// Files take the place of those that the process had mapped.
func (r *returning) Files() map[string]*os.File { return r.files }

// Attach gives the worker its program, and makes the session one like any other.
func (r *returning) Attach(ctx context.Context, id proc.Identity) error {
	program, err := proc.Open(id)
	if err != nil {
		return err
	}
	r.s.program = program
	r.s.record.Program, r.s.record.Command = id, program.Command(commandBytes)
	// From here on the next phosd adopts the session, or finds that its worker or its program is gone.
	if err := r.daemon.dir.Save(r.s.record); err != nil {
		return err
	}
	// While it takes its program it maps again what that shares.
	r.daemon.lend(r.s)
	control := r.daemon.dir.Control(r.s.record.Session)
	if err := workerclient.Attach(ctx, r.s.control.Worker, control, program); err != nil {
		return err
	}
	r.once.Do(func() {
		r.daemon.metrics.Returned()
		r.daemon.watch(r.s)
		r.release()
		r.daemon.log.Info("session restored", "session", r.s.record.Session, "pid", id.PID, "uid", r.s.record.Owner.UID,
			"worker", r.s.record.Worker.PID, "command", r.s.record.Command)
	})
	return nil
}

// release closes what is only needed until there is a program.
func (r *returning) release() {
	for _, file := range r.files {
		if file != nil {
			_ = file.Close()
		}
	}
	if r.life != nil {
		_ = r.life.Close()
	}
}

// Abort ends the worker and leaves nothing of the session.
func (r *returning) Abort() {
	if r.Return != nil {
		r.Return.Close()
	}
	attached := true
	r.once.Do(func() { attached = false })
	if attached {
		r.s.kill()
		<-r.s.gone
		return
	}
	r.release()
	s, d := r.s, r.daemon
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
	close(s.abandoned) // nobody else has the session
	d.refund(s.ticket)
	if s.record.Session == 0 {
		return
	}
	if err := d.dir.Remove(s.record.Session); err != nil {
		d.log.Error("clean up", "session", s.record.Session, "error", err)
	}
}
