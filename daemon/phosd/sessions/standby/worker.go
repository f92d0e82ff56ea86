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

// Worker is one that waits, or has waited.
type Worker struct {
	// Slot is its place in the memory accounting.
	Slot int
	// MemoryBytes is what it says that it holds of each GPU.
	MemoryBytes []uint64

	command *exec.Cmd
	handle  *proc.Handle
	conn    *fdpass.Conn
}

// readyTime is how long a worker may take to get ready. Making a context on each of many GPUs takes
// some.
const readyTime = 2 * time.Minute

// assignTime is how long it may take to give a worker its session: the kernel has room for that.
const assignTime = 5 * time.Second

// ready is what a worker says.
type ready struct {
	MemoryBytes []uint64 `json:"memory_bytes"`
	Error       string   `json:"error"`
}

// start starts a worker and waits until it is ready.
func start(
	ctx context.Context,
	command func(far *os.File) *exec.Cmd,
	order any,
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
	if err := near.Deadline(time.Now().Add(readyTime)); err != nil {
		return nil, err
	}
	if err := near.Send(order, files...); err != nil {
		return nil, err
	}
	var said ready
	besides, err := near.Receive(&said)
	fdpass.Close(besides)
	if err == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	if err != nil {
		return nil, err
	}
	w.MemoryBytes = said.MemoryBytes
	return w, nil
}

// PID is that of the worker's process.
func (w *Worker) PID() int { return w.command.Process.Pid }

// Assign gives a worker that was taken its session. What fails here has ended it.
func (w *Worker) Assign(config any, files ...*os.File) error {
	err := w.conn.Deadline(time.Now().Add(assignTime))
	if err == nil {
		err = w.conn.Send(config, files...)
	}
	if err != nil {
		w.End()
		return fmt.Errorf("worker %d, which has waited: %w", w.PID(), err)
	}
	// What was sent is there to be read all the same.
	return w.conn.Close()
}

// Reap takes the exit status of a worker that has a session.
func (w *Worker) Reap() error { return w.command.Wait() }

// End ends the process and waits for that: its memory is free then. It may have ended before.
func (w *Worker) End() {
	_ = w.conn.Close()
	_ = w.command.Process.Kill()
	_ = w.command.Wait() // by the signal, or before
	if w.handle != nil {
		_ = w.handle.Close()
	}
}
