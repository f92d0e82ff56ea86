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

// testWorker runs a worker in the test process; the test process is also the program. Its memory
// keeps its addresses when the worker is replaced, as that of a restored program does.
type testWorker struct {
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

func newTestWorker(t *testing.T, spec string) *testWorker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may control a worker")
	}
	s := &testWorker{t: t, dir: t.TempDir(), spec: spec}
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
	j := w.activate(live, w.session.Load(), cookie{})
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

// config creates the arena of a session and returns its configuration.
func (s *testWorker) config(session uint64) boot.Config {
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

func (s *testWorker) newWorker(config boot.Config) *Worker {
	s.t.Helper()
	w := newWorker(config)
	w.log = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	var err error
	if w.backend, err = soft.Open(s.spec, soft.Options{Logger: w.log}); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// start serves the worker's control socket and runs the worker.
func (s *testWorker) start(w *Worker, run func() error) {
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

// stop ends the worker and releases what its process would have held.
func (s *testWorker) stop() {
	s.t.Helper()
	if s.worker == nil {
		return
	}
	s.worker.end("end of test")
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
	if j := s.worker.active.Load(); j != nil {
		if err := j.link.arena.Close(); err != nil {
			s.t.Error(err)
		}
	}
	if closer, ok := s.worker.backend.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.worker = nil
}

func (s *testWorker) close() {
	s.stop()
	if err := s.images.Abort(); err != nil {
		s.t.Error(err)
	}
	for _, pack := range s.packs {
		_ = pack.Close()
	}
}

// openImages begins a transaction, for any number of packs.
func (s *testWorker) openImages() {
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

// handOff hands off files to the worker and returns their token.
func (s *testWorker) handOff(files ...*os.File) []byte {
	s.t.Helper()
	token, err := fdtoken.Send(s.t.Context(), s.socket, files)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// dump is a checkpoint, driven as phosd drives it.
type dump struct {
	s      *testWorker
	stream api.Worker_CheckpointClient
	cancel context.CancelFunc
	pack   *os.File
}

func (s *testWorker) dump() *dump {
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

// must executes a command that must succeed.
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

// begin starts the checkpoint with a new pack and all existing ones.
func (d *dump) begin() {
	d.s.t.Helper()
	pack, err := d.s.images.NewPack()
	if err != nil {
		d.s.t.Fatal(err)
	}
	d.pack = pack
	d.must(begin(d.s.handOff(append([]*os.File{pack}, d.s.packs...)...)))
}

// cut quiesces, freezes and cuts, and retries while the worker is busy. The program stays frozen.
func (d *dump) cut() {
	d.s.t.Helper()
	for {
		if done := d.doOrBusy(quiesce(20 * time.Second)); done.GetBusy() != "" {
			d.s.t.Logf("quiesce: %s", done.GetBusy())
			continue
		}
		d.s.program.Freeze()
		done := d.doOrBusy(cutNow(20 * time.Second))
		if done.GetBusy() == "" {
			return
		}
		d.s.t.Logf("cut: %s", done.GetBusy())
		d.s.program.Thaw()
	}
}

// doOrBusy executes a command that must succeed or be busy.
func (d *dump) doOrBusy(command *api.SaveCommand) *api.SaveDone {
	d.s.t.Helper()
	done, err := d.do(command)
	if err != nil {
		d.s.t.Fatal(err)
	}
	return done
}

// end closes the stream, as phosd does after the last answer.
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

// awaitCheckpointEnd waits until a cancelled checkpoint has ended.
func (s *testWorker) awaitCheckpointEnd() {
	s.worker.checkpointing.Lock()
	defer s.worker.checkpointing.Unlock()
}

// restore replaces the worker of the frozen program by one that restores its session.
func (s *testWorker) restore(tree []byte, eager bool) {
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
	r := newWorkerRestore(w)
	w.log = log
	s.files = append(s.files, file)
	s.start(w, func() error { return r.run(s.packs) })
	s.attach()
}

// attach connects the program to the restored session.
func (s *testWorker) attach() {
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
		&api.AttachRequest{Files: s.handOff(handle.File()), Pid: uint32(id.PID), StartTicks: id.StartTicks},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	s.program.Move(s.files[len(s.files)-1])
	s.program.Thaw()
}
