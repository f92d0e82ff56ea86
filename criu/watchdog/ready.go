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

// beforeDump is the moment at which CRIU has found out what the kernel can do, and has looked at no
// process yet.
const beforeDump = "pre-dump"

// errNotWanted ends a CRIU that was started for a dump which does not come.
var errNotWanted = errors.New("the dump is another one")

// waiting is a CRIU that was started before the tree was frozen. What it does until then takes as
// long as the rest of a small program's dump, and none of it needs the program to stand still.
type waiting struct {
	order Dump
	// release lets it go on.
	release chan struct{}
	cancel  context.CancelCauseFunc
	ended   chan error
}

// makeReady gathers the tree, starts CRIU, and returns when that waits.
func (w *watchdog) makeReady(ctx context.Context, order *ready, files []*os.File) error {
	if w.group != nil || w.waiting != nil || len(files) != 1 {
		return fmt.Errorf("make ready: %w", ErrOrder)
	}
	group, err := freezer.Gather(order.Root, cgroup.Name(groupKind, w.self))
	if err != nil {
		return fmt.Errorf("make ready: %w", err)
	}
	w.group, w.root, w.gathered = group, order.Root, true
	first := &waiting{order: order.Dump, release: make(chan struct{}), ended: make(chan error, 1)}
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
		w.waiting = first
		return nil
	case err := <-first.ended:
		cancel(nil)
		// Whoever killed it has left its children.
		return fmt.Errorf("make ready: %w", errors.Join(err, errNeverWaited, orphans.EndSession(w.self)))
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		<-first.ended
		return fmt.Errorf("make ready: %w", errors.Join(context.Cause(ctx), orphans.EndSession(w.self)))
	}
}

// errNeverWaited means that CRIU did not come to the moment at which it should wait.
var errNeverWaited = errors.New("CRIU has not waited")

// released reports whether it was let go on.
func (f *waiting) released() bool {
	select {
	case <-f.release:
		return true
	default:
		return false
	}
}

func (f *waiting) await(ctx context.Context) error {
	select {
	case <-f.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take returns the CRIU that waits, if it waits for this dump.
func (w *watchdog) take(order Dump) *waiting {
	if w.waiting == nil {
		return nil
	}
	mine := w.waiting.order
	mine.Deadline, order.Deadline = time.Time{}, time.Time{}
	if !reflect.DeepEqual(mine, order) {
		w.dismiss()
		return nil
	}
	first := w.waiting
	w.waiting = nil
	return first
}

// run lets it dump.
func (f *waiting) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	defer stop()
	defer f.cancel(nil)
	close(f.release)
	return <-f.ended
}

// dismiss ends the CRIU that waits. It has touched nothing.
func (w *watchdog) dismiss() {
	if w.waiting == nil {
		return
	}
	w.waiting.cancel(errNotWanted)
	<-w.waiting.ended
	w.waiting = nil
	_ = orphans.EndSession(w.self) // its children, had it any: they are no reason to fail
}
