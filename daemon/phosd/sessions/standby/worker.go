package standby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Worker is a standby worker, or was one before it got its session.
type Worker struct {
	// Slot is its slot in the memory accounting.
	Slot int
	// MemoryBytes is what it holds of each GPU.
	MemoryBytes []uint64

	command *exec.Cmd
	handle  *proc.Handle
	conn    *fdpass.Conn
}

// readyTimeout is how long a worker may take to get ready: it makes a context on each GPU.
const readyTimeout = 2 * time.Minute

// assignTimeout is how long it may take to send a worker its session, which fits the socket's
// buffer.
const assignTimeout = 5 * time.Second

// ready is the worker's first message (boot.Ready).
type ready struct {
	MemoryBytes []uint64 `json:"memory_bytes"`
	Error       string   `json:"error"`
}

// start starts a worker and waits until it is ready.
func start(
	ctx context.Context,
	command func(far *os.File) *exec.Cmd,
	message any,
	files ...*os.File,
) (_ *Worker, err error) {
	near, far, err := fdpass.Pair()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = near.Close() })()
	w := &Worker{conn: near, command: command(far)}
	err = errors.Join(proc.StartConfined(w.command), far.Close())
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	defer func() {
		if err != nil {
			w.End()
		}
	}()
	if w.handle, err = proc.OpenPID(w.PID()); err != nil {
		return nil, err
	}
	if err := near.Deadline(time.Now().Add(readyTimeout)); err != nil {
		return nil, err
	}
	if err := near.Send(message, files...); err != nil {
		return nil, err
	}
	var answer ready
	extra, err := near.Receive(&answer)
	fdpass.Close(extra)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return nil, err
	}
	w.MemoryBytes = answer.MemoryBytes
	return w, nil
}

// PID returns the worker's pid.
func (w *Worker) PID() int { return w.command.Process.Pid }

// Assign sends a worker its session. If it fails, the worker has ended.
func (w *Worker) Assign(config any, files ...*os.File) error {
	err := w.conn.Deadline(time.Now().Add(assignTimeout))
	if err == nil {
		err = w.conn.Send(config, files...)
	}
	if err != nil {
		w.End()
		return fmt.Errorf("standby worker %d: %w", w.PID(), err)
	}
	// The worker can still read the message after this end is closed.
	return w.conn.Close()
}

// Reap waits for the end of a worker that has a session and returns its exit status.
func (w *Worker) Reap() error { return w.command.Wait() }

// End kills the worker and waits until it has exited and its memory is free. It may have exited
// before.
func (w *Worker) End() {
	_ = w.conn.Close()
	_ = w.command.Process.Kill()
	_ = w.command.Wait()
	if w.handle != nil {
		_ = w.handle.Close()
	}
}
