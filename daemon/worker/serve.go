package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
)

// errFault is returned after a panic in the worker: the session cannot continue.
var errFault = errors.New("internal fault")

// serve runs the session from the handshake to its end. It marks the session dead before it
// returns, so that the program does not wait for a worker that will not answer.
func (w *Worker) serve() error {
	file, err := wire.Open(w.config.SessionPath)
	if err != nil {
		return errors.Join(err, w.refuse(err))
	}
	defer markDead(file)
	live, hello, err := w.handshake(file)
	if err != nil {
		return err
	}
	w.log.Info("program joined", "backend", w.config.Gpus)
	if wrong := w.currentJob().err; wrong != nil {
		w.log.Warn("invalid job file", "error", wrong)
	}
	return w.run(w.activate(live, w.session.Load(), cookieOf(hello)))
}

// markDead makes every later call of the program fail. phosd does the same if this process dies
// before it can.
func markDead(file *wire.File) { file.Word32(wire.WordDead).Store(1) }

// handshake sets up the session with the program. If it fails early it sends the program the
// reason.
func (w *Worker) handshake(file *wire.File) (live *link, hello wire.Hello, err error) {
	conn, err := w.connection()
	if err != nil {
		return nil, hello, err
	}
	defer conn.Close()
	if hello, err = readHello(conn); err != nil {
		return nil, hello, errors.Join(err, sendRefusal(conn, err))
	}
	if err := w.sendWelcome(conn, hello); err != nil {
		return nil, hello, err
	}
	if err := w.agreeVisible(conn, hello); err != nil {
		return nil, hello, err
	}
	if err := w.receiveTracker(conn, hello); err != nil {
		return nil, hello, err
	}
	live = newLink(file, processMemory{program: w.program.Identity, tracker: w.tracker.Load()}, hello.Flags&wire.HelloCopyByShim != 0)
	live.borrow = w.borrow
	if live.arena, err = w.placeArena(conn); err != nil {
		return nil, hello, err
	}
	if err := w.begin(live); err != nil {
		return nil, hello, err
	}
	if _, err := conn.Write(placedReply(false)); err != nil {
		return nil, hello, fmt.Errorf("handshake: %w", err)
	}
	return live, hello, awaitClose(conn)
}

// awaitClose waits until the program has read everything and closed its end. From then on
// the program holds no file descriptor of phos.
func awaitClose(conn net.Conn) error {
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		return fmt.Errorf("handshake: %w: unexpected data after the handshake", wire.ErrHandshake)
	}
	return nil
}

// begin creates the session and writes the session file's header.
func (w *Worker) begin(live *link) error {
	header := wire.Header{
		Session:       w.config.Session,
		ArenaBase:     live.arena.Address(),
		ArenaBytes:    w.config.ArenaBytes,
		DriverVersion: uint32(gpu.Driver(w.backend.Devices())),
	}
	devices := view.Devices(w.backend.Devices(), w.visible)
	for ordinal, info := range devices {
		window := gpu.WindowOf(devices, ordinal)
		header.Devices = append(header.Devices, wire.Device{
			Name: info.Name, UUID: info.UUID, MemoryBytes: info.MemoryBytes, Attributes: info.Attributes,
			Window: window.Address, WindowBytes: window.Bytes,
		})
	}
	made, err := session.New(session.Options{
		Backend: w.backend, Visible: w.visible, Program: live, Arena: w.counted(live.arena), Answers: live,
		Share: live.share, Sharing: ipc.Dir(w.config.SharingDir), Getenv: w.getenv, Logger: w.log,
	})
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	live.file.SetHeader(header)
	w.session.Store(made)
	return nil
}

// run dispatches the program's calls until the session is ended or the ring is corrupt.
func (w *Worker) run(active *activeSession) error {
	w.active.Store(active)
	go w.watchCookie(active)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	context.AfterFunc(ctx, func() { w.end("the ring was closed") })
	go func() {
		<-w.over
		active.link.slots.Close() // a call may wait for a copy that never comes
		cancel()
	}()
	err := w.dispatchAll(ctx, active)
	active.link.slots.Close()
	switch {
	case errors.Is(err, errFault):
		active.link.file.Fail(faultResult)
	case err != nil:
		w.log.Error("session corrupted by the program", "error", err)
		return nil
	}
	if err == nil {
		w.log.Info("session ended", "why", w.why)
	}
	return err
}

// dispatchAll dispatches calls from the ring. It turns a panic of a handler into an error that ends
// the session.
func (w *Worker) dispatchAll(ctx context.Context, active *activeSession) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			w.log.Error("panic in call; session ends", "panic", fault, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errFault, fault)
		}
	}()
	var call session.Call
	return active.ring.Run(ctx, func(frame *wire.Frame) {
		call = session.Call{
			Number: frame.Call, Flags: frame.Flags, Slot: frame.Slot, Context: frame.Context,
			Sequence: frame.Sequence, Payload: frame.Payload,
		}
		active.session.Dispatch(&call)
		if call.Long() {
			active.ring.SkipSpin()
		}
	})
}
