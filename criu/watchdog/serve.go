package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrOrder is returned when an order is not possible in the current state.
var ErrOrder = errors.New("out of order")

// watchdog is the state of the process.
type watchdog struct {
	conn  *fdpass.Conn
	self  proc.Identity
	group *freezer.Group
	root  proc.Identity
	// gathered is set if the tree stays in its cgroup until the watchdog ends, frozen or not.
	gathered bool
	// prestarted is a CRIU that was started in advance, or nil.
	prestarted *prestartedCRIU
}

// message is an order with its files.
type message struct {
	order order
	files []*os.File
}

// Serve carries out phosd's orders. When phosd has gone, it undoes what is not complete: it thaws
// the tree.
func Serve() error {
	// The watchdog must outlive phosd, so signals to phosd's terminal or process group are ignored.
	fdpass.IgnoreSignals()
	// CRIU inherits both: it must not be killed, inside of processes, by a limit that makes it leave
	// them (runner.DenyWrites), or because this process, to which it writes, was killed.
	signal.Ignore(unix.SIGXFSZ, unix.SIGPIPE)
	runner.RaiseLimits()
	conn, err := fdpass.Inherited(orderFD)
	if err != nil {
		return err
	}
	defer conn.Close()
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return err
	}
	w := &watchdog{conn: conn, self: self}
	orders := make(chan message)
	go w.receive(orders)
	for next := range orders {
		if next.order.Cancel {
			// Its order has just ended.
			continue
		}
		answer := kinds.Outcome(w.handle(next, orders))
		fdpass.Close(next.files)
		if err := conn.Send(answer); err != nil {
			break
		}
	}
	w.dropPrestarted()
	return w.undo()
}

func (w *watchdog) receive(orders chan<- message) {
	defer close(orders)
	for {
		var next message
		var err error
		if next.files, err = w.conn.Receive(&next.order); err != nil {
			return
		}
		orders <- next
	}
}

// handle carries out one order.
func (w *watchdog) handle(next message, orders <-chan message) error {
	switch {
	case next.order.Prestart != nil:
		return w.whileWatching(
			orders,
			func(ctx context.Context) error { return w.prestartCRIU(ctx, next.order.Prestart, next.files) },
		)
	case next.order.Freeze != nil:
		return w.freeze(next.order.Freeze)
	case next.order.Dump != nil:
		return w.whileWatching(
			orders,
			func(ctx context.Context) error { return w.dump(ctx, *next.order.Dump, next.files) },
		)
	case next.order.Precopy != nil:
		return w.whileWatching(
			orders,
			func(ctx context.Context) error { return w.precopy(ctx, *next.order.Precopy, next.files) },
		)
	case next.order.Thaw:
		return w.thaw()
	case next.order.Kill:
		return w.end()
	}
	return ErrOrder
}

// whileWatching calls do, and cancels it if phosd says so or has gone.
func (w *watchdog) whileWatching(orders <-chan message, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case next, ok := <-orders:
			fdpass.Close(next.files)
			if !ok {
				cancel(errors.New("phosd has exited"))
				orders = nil
			} else if next.order.Late {
				cancel(context.DeadlineExceeded)
			} else if next.order.Cancel {
				cancel(context.Canceled)
			}
		}
	}
}

func (w *watchdog) freeze(order *freeze) error {
	ctx, cancel := context.WithDeadline(context.Background(), order.Deadline)
	defer cancel()
	if w.gathered && w.root == order.Root {
		if err := w.group.Hold(ctx, order.Root); err != nil {
			return errors.Join(err, w.group.Resume())
		}
		return nil
	}
	if w.group != nil {
		return fmt.Errorf("freeze: %w", ErrOrder)
	}
	group, err := freezer.Freeze(ctx, order.Root, cgroup.Name(groupKind, w.self))
	if err != nil {
		return err
	}
	w.group, w.root = group, order.Root
	return nil
}

// thaw resumes the tree. If the tree was gathered it stays in its cgroup until the watchdog ends,
// because moving it back takes long.
func (w *watchdog) thaw() error {
	if w.gathered {
		return w.group.Resume()
	}
	return w.undo()
}

// undo resumes the tree and moves it back to its cgroups.
func (w *watchdog) undo() error {
	if w.group == nil {
		return nil
	}
	if err := w.group.Thaw(); err != nil {
		return err
	}
	w.group, w.gathered = nil, false
	return nil
}

func (w *watchdog) kill() error {
	if w.group == nil {
		return fmt.Errorf("kill: %w", ErrOrder)
	}
	if err := w.group.Kill(); err != nil {
		return err
	}
	w.group, w.gathered = nil, false
	return nil
}

// secondsLeft returns CRIU's own timeout. It is longer than the deadline, so that the deadline is
// reached first.
func secondsLeft(deadline time.Time) uint32 {
	return uint32(max(time.Until(deadline), 0).Seconds()) + 2
}
