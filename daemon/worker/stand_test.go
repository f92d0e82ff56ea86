package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const arenaBytes = 64 << 20

// stand is a worker in this process, whose program is this process too. Its memory stays where it
// is when the worker is replaced by another one, as a restored program's does.
type stand struct {
	t       *testing.T
	dir     string
	spec    string
	program *wiretest.Program
	files   []*wire.File // the last one is in use
	arenas  uint64       // where the arena is

	worker  *Worker
	socket  string
	control *api.WorkerConn
	ended   chan error

	images *store.Transaction
	packs  []*os.File
}

func newStand(t *testing.T, spec string) *stand {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root controls a worker")
	}
	s := &stand{t: t, dir: t.TempDir(), spec: spec}
	s.openImages()
	config := s.config(1)
	file, err := wire.Create(config.SessionPath)
	if err != nil {
		t.Fatal(err)
	}
	w := s.newWorker(config)
	live := newLink(file, processMemory{program: self(t)}, false)
	if live.arena, err = wire.OpenArena(config.ArenaPath); err != nil {
		t.Fatal(err)
	}
	for n := uint64(0); ; n++ {
		s.arenas = wire.ArenaFirst + n*wire.ArenaStride
		if err = live.arena.Place(s.arenas); err == nil {
			break
		}
		if n == 15 {
			t.Fatal(err)
		}
	}
	if err := w.begin(live); err != nil {
		t.Fatal(err)
	}
	s.files = append(s.files, file)
	s.program = wiretest.New(file, processMemory{program: self(t)})
	j := w.join(live, w.session.Load(), cookie{})
	s.start(w, func() error { return w.run(j) })
	t.Cleanup(s.close)
	return s
}

func self(t *testing.T) proc.Identity {
	t.Helper()
	id, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// config makes the arena of a session and says where its files are.
func (s *stand) config(session uint64) boot.Config {
	s.t.Helper()
	config := boot.Config{
		Session: session, ArenaBytes: arenaBytes, Gpus: s.spec,
		SessionPath: filepath.Join(s.dir, fmt.Sprint("session", session)),
		ArenaPath:   filepath.Join(s.dir, fmt.Sprint("arena", session)),
	}
	if err := wire.CreateArena(config.ArenaPath, arenaBytes); err != nil {
		s.t.Fatal(err)
	}
	return config
}

func (s *stand) newWorker(config boot.Config) *Worker {
	s.t.Helper()
	w := newWorker(config)
	w.log = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	var err error
	if w.backend, err = soft.Open(s.spec, soft.Options{Logger: w.log}); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// start lets a worker serve its control socket, and run.
func (s *stand) start(w *Worker, run func() error) {
	s.t.Helper()
	s.worker, s.ended = w, make(chan error, 1)
	s.socket = filepath.Join(s.dir, fmt.Sprint("control", w.config.Session))
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := w.serveOn(listener); err != nil {
		s.t.Fatal(err)
	}
	if s.control, err = api.DialWorker(s.socket); err != nil {
		s.t.Fatal(err)
	}
	ended := s.ended
	go func() { ended <- run() }()
}

// stop ends the worker as the end of its process would.
func (s *stand) stop() {
	s.t.Helper()
	if s.worker == nil {
		return
	}
	s.worker.end("the test is over")
	if err := <-s.ended; err != nil {
		s.t.Errorf("worker: %v", err)
	}
	s.worker.server.Stop()
	_ = s.control.Close()
	if made := s.worker.session.Load(); made != nil {
		if err := made.Close(); err != nil {
			s.t.Error(err)
		}
	}
	if j := s.worker.joined.Load(); j != nil {
		if err := j.link.arena.Close(); err != nil {
			s.t.Error(err)
		}
	}
	if closer, closes := s.worker.backend.(io.Closer); closes {
		if err := closer.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.worker = nil
}

func (s *stand) close() {
	s.stop()
	if err := s.images.Abort(); err != nil {
		s.t.Error(err)
	}
	for _, pack := range s.packs {
		_ = pack.Close()
	}
}

// openImages begins a transaction for as many packs as the test wants.
func (s *stand) openImages() {
	s.t.Helper()
	dir, err := os.Open(s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	defer dir.Close()
	images, err := store.Init(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(images.Close)
	if s.images, err = images.Begin(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// hand hands files to the worker.
func (s *stand) hand(files ...*os.File) []byte {
	s.t.Helper()
	token, err := fdtoken.Send(s.t.Context(), s.socket, files)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// dump is a checkpoint as phosd takes it.
type dump struct {
	s      *stand
	stream api.Worker_CheckpointClient
	cancel context.CancelFunc
	pack   *os.File
}

func (s *stand) dump() *dump {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s.t.Cleanup(cancel)
	stream, err := s.control.Worker.Checkpoint(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return &dump{s: s, stream: stream, cancel: cancel}
}

func (d *dump) do(command *api.SaveCommand) (*api.SaveDone, error) {
	if err := d.stream.Send(command); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for {
		event, err := d.stream.Recv()
		if err != nil {
			return nil, api.FromStatus(err)
		}
		if done := event.GetDone(); done != nil {
			return done, nil
		}
	}
}

// must does a command that cannot fail.
func (d *dump) must(command *api.SaveCommand) *api.SaveDone {
	d.s.t.Helper()
	done, err := d.do(command)
	if err != nil || done.GetBusy() != "" {
		d.s.t.Fatalf("%v: %v, %v", command, done.GetBusy(), err)
	}
	return done
}

func begin(token []byte) *api.SaveCommand {
	return &api.SaveCommand{Command: &api.SaveCommand_Begin{Begin: &api.SaveBegin{Files: token}}}
}

func quiesce(deadline time.Duration) *api.SaveCommand {
	return &api.SaveCommand{
		Command: &api.SaveCommand_Quiesce{
			Quiesce: &api.SaveQuiesce{DeadlineMilliseconds: uint64(deadline.Milliseconds())},
		},
	}
}

func cutNow(deadline time.Duration) *api.SaveCommand {
	return &api.SaveCommand{
		Command: &api.SaveCommand_Cut{Cut: &api.SaveCut{DeadlineMilliseconds: uint64(deadline.Milliseconds())}},
	}
}

func resume() *api.SaveCommand {
	return &api.SaveCommand{Command: &api.SaveCommand_Resume{Resume: &api.SaveResume{}}}
}

func finish() *api.SaveCommand {
	return &api.SaveCommand{Command: &api.SaveCommand_Finish{Finish: &api.SaveFinish{}}}
}

// begin begins with a new pack, beside all that are there.
func (d *dump) begin() {
	d.s.t.Helper()
	pack, err := d.s.images.NewPack()
	if err != nil {
		d.s.t.Fatal(err)
	}
	d.pack = pack
	d.must(begin(d.s.hand(append([]*os.File{pack}, d.s.packs...)...)))
}

// cut brings the program to a stand at an instant that is saved. It stays frozen.
func (d *dump) cut() {
	d.s.t.Helper()
	for {
		if done := d.must2(quiesce(20 * time.Second)); done.GetBusy() != "" {
			d.s.t.Logf("quiesce: %s", done.GetBusy())
			continue
		}
		d.s.program.Freeze()
		done := d.must2(cutNow(20 * time.Second))
		if done.GetBusy() == "" {
			return
		}
		d.s.t.Logf("cut: %s", done.GetBusy())
		d.s.program.Thaw()
	}
}

// must2 does a command that may only be busy.
func (d *dump) must2(command *api.SaveCommand) *api.SaveDone {
	d.s.t.Helper()
	done, err := d.do(command)
	if err != nil {
		d.s.t.Fatal(err)
	}
	return done
}

// end ends the stream as phosd does after the last answer.
func (d *dump) end() {
	d.s.t.Helper()
	if err := d.stream.CloseSend(); err != nil {
		d.s.t.Error(err)
	}
	for {
		if _, err := d.stream.Recv(); err != nil {
			if !errors.Is(err, io.EOF) {
				d.s.t.Errorf("end: %v", err)
			}
			break
		}
	}
	d.s.packs = append(d.s.packs, d.pack)
	d.cancel()
}

// settle waits until a checkpoint that was broken off is over.
func (s *stand) settle() {
	s.worker.checkpointing.Lock()
	defer s.worker.checkpointing.Unlock()
}

// restore replaces the worker of a program that stands still by one that makes its session again.
func (s *stand) restore(tree []byte, eager bool) {
	s.t.Helper()
	s.stop()
	config := s.config(uint64(len(s.files) + 1))
	config.Restore = &boot.Restore{Tree: fmt.Sprintf("%x", tree), Packs: len(s.packs), Eager: eager}
	file, err := wire.Create(config.SessionPath)
	if err != nil {
		s.t.Fatal(err)
	}
	w := s.newWorker(config)
	log := w.log
	r := newRevival(w)
	w.log = log
	s.files = append(s.files, file)
	s.start(w, func() error { return r.run(s.packs) })
	s.attach()
}

// attach brings the program to its session again.
func (s *stand) attach() {
	s.t.Helper()
	handle, err := proc.OpenPID(os.Getpid())
	if err != nil {
		s.t.Fatal(err)
	}
	defer handle.Close()
	id := self(s.t)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	_, err = s.control.Worker.Attach(
		ctx,
		&api.AttachRequest{Files: s.hand(handle.File()), Pid: uint32(id.PID), StartTicks: id.StartTicks},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	s.program.Move(s.files[len(s.files)-1])
	s.program.Thaw()
}
