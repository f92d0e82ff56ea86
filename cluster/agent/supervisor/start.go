package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// Role is the argument with which a program calls Main.
const Role = "supervise"

// Descriptors that a supervisor inherits: its locked run directory, and a pipe for its answer.
const (
	lockFD  = 3
	readyFD = 4
)

// readiness is what a supervisor writes when it listens, or cannot.
type readiness struct {
	fdpass.Outcome
	// Limit is set if the error is a LimitError; Problem is its reason.
	Limit   *procgroup.LimitError `json:"limit,omitempty"`
	Problem string                `json:"problem,omitempty"`
}

// Start makes the run directory of an attempt in a directory, and starts a supervisor for it. It
// returns when the supervisor listens and its limits are set; the processes may not be started yet.
// If it fails, nothing is left. The error is ErrExists if the attempt was started before, and a
// procgroup.LimitError if a limit cannot be set.
func Start(ctx context.Context, root string, spec Spec) (*Attempt, error) {
	spec, err := spec.check()
	if err != nil {
		return nil, fmt.Errorf("start %.200s: %w", spec.Key, err)
	}
	a := &Attempt{Key: spec.Key, dir: filepath.Join(root, spec.Key.String())}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = ErrExists
		}
		return nil, fmt.Errorf("start %s: %w", a.Key, err)
	}
	if err := a.start(ctx, spec); err != nil {
		err = fmt.Errorf("start %s: %w", a.Key, err)
		return nil, errors.Join(err, os.RemoveAll(a.dir))
	}
	return a, nil
}

// start starts a supervisor in the run directory. If it fails, no process is left.
func (a *Attempt) start(ctx context.Context, spec Spec) error {
	boot, err := proc.BootID()
	if err != nil {
		return err
	}
	leaf := fmt.Sprintf("%s.%08x", spec.Key, rand.Uint32())
	o := order{Version: version, Spec: spec, Cgroup: path.Join(spec.CgroupParent, leaf), BootID: boot}
	// It need not survive a power cut, after which there is nothing to find.
	if err := writeJSON(a.dir, orderName, o, fast); err != nil {
		return err
	}
	locked, err := lock(a.dir)
	if err != nil {
		return err
	}
	defer locked.Close() // the supervisor has the lock, too
	process, ready, err := a.execute(locked, spec.Network)
	if err != nil {
		return err
	}
	defer ready.Close()
	if err = await(ctx, ready); err != nil {
		process.kill()
		err = errors.Join(err, clean(context.WithoutCancel(ctx), o.Cgroup))
	}
	return err
}

// child is a supervisor as its agent's child.
type child struct {
	handle *proc.Handle
	ended  chan struct{}
}

// reap waits for the child by its pidfd, which takes no thread.
func (c *child) reap(command *exec.Cmd) {
	_ = errors.Join(c.handle.Wait(), command.Wait()) // its record says how it ended
	close(c.ended)
	_ = c.handle.Close()
}

// kill kills the child and waits for its end.
func (c *child) kill() {
	_ = c.handle.Signal(unix.SIGKILL) // it may have ended
	<-c.ended
}

// execute starts this program again, in the role of a supervisor.
func (a *Attempt) execute(locked, network *os.File) (_ *child, ready *os.File, err error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	output, err := os.OpenFile(filepath.Join(a.dir, errorsName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, ready.Close())
	}
	defer output.Close()
	command := exec.Command("/proc/self/exe", Role, "--dir", a.dir)
	command.Args[0] = os.Args[0]
	command.Dir = "/"
	command.Env = environment
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{locked, theirs}
	command.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := startIn(network, command); err != nil {
		return nil, nil, errors.Join(err, ready.Close())
	}
	handle, err := proc.OpenPID(command.Process.Pid)
	if err != nil {
		return nil, nil, errors.Join(err, command.Process.Kill(), command.Wait(), ready.Close())
	}
	process := &child{handle, make(chan struct{})}
	go process.reap(command)
	return process, ready, nil
}

// startIn starts a command in a network namespace; nil: this process's.
func startIn(network *os.File, command *exec.Cmd) error {
	if network == nil {
		return command.Start()
	}
	return namespace.Do([]*os.File{network}, command.Start)
}

// environment keeps a supervisor small: it has little to do, and there are hundreds on a node. It
// collects no garbage before the processes run (Main): that would take a third of the time of its
// start.
var environment = []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=32MiB", "GOTRACEBACK=single"}

// await waits until a supervisor is ready. The answer of one that is ready counts for nothing once
// the context has ended: the caller waits no longer, and would know nothing of the attempt.
func await(ctx context.Context, ready *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	var got readiness
	err := json.NewDecoder(ready).Decode(&got)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return got.err()
	case errors.Is(err, io.EOF):
		return errors.New("the supervisor ended before it was ready; was it killed?")
	}
	return err
}

// newReadiness is what a supervisor writes.
func newReadiness(err error) readiness {
	r := readiness{Outcome: kinds.Outcome(err)}
	if errors.As(err, &r.Limit) {
		r.Problem = r.Limit.Err.Error()
	}
	return r
}

// err returns the error that newReadiness was given.
func (r readiness) err() error {
	if r.Limit != nil {
		r.Limit.Err = errors.New(r.Problem)
		return r.Limit
	}
	return kinds.Err(r.Outcome)
}
