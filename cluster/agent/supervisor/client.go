package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
)

// Attempt is an agent's view of one attempt, whether it runs or has ended. Its methods may be
// called at the same time.
type Attempt struct {
	Key
	dir string
}

// Directory returns the run directory.
func (a *Attempt) Directory() string { return a.dir }

// Log returns a Reader of what the processes print, also after the end.
func (a *Attempt) Log(from linelog.Position) *linelog.Reader {
	return linelog.Open(filepath.Join(a.dir, logName), from)
}

// LogDirectory returns the directory of the log.
func (a *Attempt) LogDirectory() string { return filepath.Join(a.dir, logName) }

// Spec returns what was ordered.
func (a *Attempt) Spec() (Spec, error) {
	var o order
	err := readJSON(a.dir, orderName, &o)
	return o.Spec, err
}

// Status returns how far the attempt is now.
func (a *Attempt) Status(ctx context.Context) (Status, error) {
	return a.ask(ctx, request{Do: askStatus})
}

// Started waits until all processes are started, or the attempt ends without that.
func (a *Attempt) Started(ctx context.Context) (Status, error) {
	return a.ask(ctx, request{Do: askStarted})
}

// Wait waits until no process is left. If the supervisor was killed, Wait ends what it has left.
func (a *Attempt) Wait(ctx context.Context) (Status, error) {
	return a.ask(ctx, request{Do: askEnd})
}

// Extend moves the deadline to a later Instant; an earlier one changes nothing. The error is
// ErrFenced if the deadline has passed, ErrEnded after the end. An attempt without a deadline stays
// without one.
func (a *Attempt) Extend(ctx context.Context, until time.Duration) error {
	return a.order(ctx, request{Do: doExtend, Until: until})
}

// Stop sends SIGTERM to all processes of the attempt, children included, and SIGKILL to what is
// left after the grace. It does not wait for that. Called again it can only shorten the grace.
// After the end it returns nil.
func (a *Attempt) Stop(ctx context.Context, grace time.Duration) error {
	return unlessEnded(a.order(ctx, request{Do: doStop, Grace: grace}))
}

// Kill sends SIGKILL to all processes of the attempt. It does not wait until they have ended. After
// the end it returns nil.
func (a *Attempt) Kill(ctx context.Context) error {
	return unlessEnded(a.order(ctx, request{Do: doKill}))
}

// Signal sends a signal to one process of the Spec, and not to its children. The error is
// ErrProcess if that does not run.
func (a *Attempt) Signal(ctx context.Context, process int, signal unix.Signal) error {
	return a.order(ctx, request{Do: doSignal, Process: process, Signal: signal})
}

// Exec runs a command beside a process of the attempt, with files as its standard streams, which
// stay open here. The error is ErrProcess if that process does not run.
func (a *Attempt) Exec(ctx context.Context, order ExecOrder, files []*os.File) (*Exec, error) {
	var status Status
	if err := readJSON(a.dir, statusName, &status); err != nil {
		return nil, err
	}
	if status.State == Ended {
		return nil, ErrEnded
	}
	e, err := beginExec(ctx, a.dir, status.Supervisor, order, files)
	if errors.Is(err, errNoAnswer) {
		err = ErrEnded
	}
	return e, a.wrap(request{Do: doExec}, err)
}

// Remove removes the run directory. The error is that of Wait if the attempt has not ended before
// ctx does.
func (a *Attempt) Remove(ctx context.Context) error {
	status, err := a.Wait(ctx)
	if err != nil {
		return err
	}
	if status.Cgroup != "" {
		// The supervisor does not wait long for the kernel.
		if err := clean(ctx, status.Cgroup); err != nil {
			return fmt.Errorf("remove %s: %w", a.Key, err)
		}
	}
	return os.RemoveAll(a.dir)
}

// unlessEnded is for requests that are fulfilled by the end.
func unlessEnded(err error) error {
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

// ask makes a request for the Status.
func (a *Attempt) ask(ctx context.Context, r request) (Status, error) {
	status, err := a.do(ctx, r)
	if errors.Is(err, ErrEnded) && status != nil {
		err = nil
	}
	if err != nil || status == nil {
		return Status{}, err
	}
	return *status, nil
}

// order makes a request that changes something.
func (a *Attempt) order(ctx context.Context, r request) error {
	_, err := a.do(ctx, r)
	return err
}

// do makes a request. If the attempt has ended, it returns the last Status, and ErrEnded. It waits
// for a supervisor that is about to listen or to exit.
func (a *Attempt) do(ctx context.Context, r request) (*Status, error) {
	for {
		var status Status
		err := readJSON(a.dir, statusName, &status)
		if err == nil && status.State == Ended {
			return &status, ErrEnded
		}
		if err == nil {
			answered, err := exchange(ctx, a.dir, status.Supervisor, r)
			if !errors.Is(err, errNoAnswer) {
				return answered, a.wrap(r, err)
			}
		}
		ended, err := a.settle(ctx)
		if err != nil {
			return nil, a.wrap(r, err)
		}
		if ended != nil {
			return ended, ErrEnded
		}
		if err := pause(ctx); err != nil {
			return nil, a.wrap(r, err)
		}
	}
}

// wrap says what an error happened to.
func (a *Attempt) wrap(r request, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s: %w", r.Do, a.Key, err)
}

// retryTime is the time between two attempts to reach a supervisor that starts or exits.
const retryTime = 5 * time.Millisecond

// pause waits a little.
func pause(ctx context.Context) error {
	timer := time.NewTimer(retryTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
