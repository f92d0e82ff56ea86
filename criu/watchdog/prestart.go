package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// beforeDump is the stage at which CRIU knows the kernel's features but has not inspected a process
// yet.
const beforeDump = "pre-dump"

// errOtherDump ends a CRIU that was started for a dump that is not requested.
var errOtherDump = errors.New("another dump was requested")

// prestartedCRIU is a CRIU that was started before the tree was frozen. What it does until it waits
// takes as long as the rest of a small program's dump, and does not need the program to be frozen.
type prestartedCRIU struct {
	order Dump
	// release is closed to let it continue.
	release chan struct{}
	cancel  context.CancelCauseFunc
	ended   chan error
}

// prestartCRIU moves the tree to its cgroup, starts CRIU, and returns when CRIU waits.
func (w *watchdog) prestartCRIU(ctx context.Context, order *prestart, files []*os.File) error {
	if w.group != nil || w.prestarted != nil || len(files) != 1 {
		return fmt.Errorf("start CRIU in advance: %w", ErrOrder)
	}
	group, err := freezer.Gather(order.Root, cgroup.Name(groupKind, w.self))
	if err != nil {
		return fmt.Errorf("start CRIU in advance: %w", err)
	}
	w.group, w.root, w.gathered = group, order.Root, true
	first := &prestartedCRIU{order: order.Dump, release: make(chan struct{}), ended: make(chan error, 1)}
	lasting, cancel := context.WithCancelCause(context.Background())
	first.cancel = cancel
	reached := make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	go func() {
		first.ended <- w.run(lasting, runner.Request{
			Images: files[0],
			Inside: first.released,
			Notify: func(script string, _ int) error {
				if script != beforeDump {
					return nil
				}
				reach()
				return first.await(lasting)
			},
		}, order.Dump)
	}()
	select {
	case <-reached:
		w.prestarted = first
		return nil
	case err := <-first.ended:
		cancel(nil)
		// If CRIU was killed, it has left its children.
		return fmt.Errorf("start CRIU in advance: %w", errors.Join(err, errNotReached, orphans.EndSession(w.self)))
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		<-first.ended
		return fmt.Errorf("start CRIU in advance: %w", errors.Join(context.Cause(ctx), orphans.EndSession(w.self)))
	}
}

// errNotReached is returned when CRIU ended before the stage at which it should wait.
var errNotReached = errors.New("CRIU ended before its dump")

// released reports whether CRIU may continue.
func (f *prestartedCRIU) released() bool {
	select {
	case <-f.release:
		return true
	default:
		return false
	}
}

// await blocks CRIU, which has reached its dump, until it is released or ctx ends.
func (f *prestartedCRIU) await(ctx context.Context) error {
	select {
	case <-f.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takePrestarted returns the waiting CRIU if its options match the order; otherwise it ends it.
func (w *watchdog) takePrestarted(order Dump) *prestartedCRIU {
	if w.prestarted == nil {
		return nil
	}
	mine := w.prestarted.order
	mine.Deadline, order.Deadline = time.Time{}, time.Time{}
	if !reflect.DeepEqual(mine, order) {
		w.dropPrestarted()
		return nil
	}
	first := w.prestarted
	w.prestarted = nil
	return first
}

// run lets CRIU continue with the dump.
func (f *prestartedCRIU) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	defer stop()
	defer f.cancel(nil)
	close(f.release)
	return <-f.ended
}

// dropPrestarted ends the waiting CRIU, which has not touched the tree.
func (w *watchdog) dropPrestarted() {
	if w.prestarted == nil {
		return
	}
	w.prestarted.cancel(errOtherDump)
	<-w.prestarted.ended
	w.prestarted = nil
	_ = orphans.EndSession(w.self) // it may have left children; failing to end them is harmless
}
