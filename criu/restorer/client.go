package restorer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// replyTimeout is how long a restorer may take to answer a request that needs no waiting.
const replyTimeout = 30 * time.Second

// errorGrace is how long a restorer may take to report why it missed its deadline.
const errorGrace = 5 * time.Second

// Client is phosd's connection to a restorer.
type Client struct {
	socket  string
	id      proc.Identity
	outside map[int]int
	// loading is set while memory of the tree may still be coming.
	loading atomic.Bool
	end     rootEnd
	// tracks is set if the restorer knows the request Track.
	tracks bool
	// conn, command and wait are nil for a restorer that another phosd has started. wait waits for the
	// end of command.
	conn    *fdpass.Conn
	command *exec.Cmd
	wait    func() error
}

// Start starts a restorer and returns when the tree is restored and frozen. program is the command
// line of phosd.
func Start(ctx context.Context, program []string, socket string, order Order, files []*os.File) (*Client, error) {
	near, far, err := fdpass.Pair()
	if err != nil {
		return nil, fmt.Errorf("start restorer: %w", err)
	}
	command := newCommand(program, order, far)
	err = startIn(order.Cgroup, command)
	_ = far.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start restorer: %w", err), near.Close())
	}
	c := &Client{socket: socket, end: newRootEnd(), tracks: true, conn: near, command: command, wait: sync.OnceValue(command.Wait)}
	if c.id, err = proc.Of(command.Process.Pid); err == nil {
		if order.Started != nil {
			order.Started(c.id)
		}
		err = c.begin(ctx, order, files)
	}
	if err != nil {
		return nil, errors.Join(c.explain(err), c.abandon())
	}
	c.loading.Store(order.Pager >= 0 && !order.Eager)
	return c, nil
}

// newCommand returns the restorer's command.
func newCommand(program []string, order Order, far *os.File) *exec.Cmd {
	command := runner.RoleCommand(program, Role, far) // a restored shell's job gets its session
	if order.NewPids {
		command.Args = append(command.Args, strconv.Itoa(freeRange(order.PIDs)))
		command.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	return command
}

// startIn starts a restorer in the cgroup of its tree, or in this process's cgroup. Starting in a
// cgroup is cheap; moving there would take the kernel milliseconds, during which no process can
// start threads.
func startIn(directory string, command *exec.Cmd) error {
	if directory == "" {
		return command.Start()
	}
	group, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer group.Close()
	command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(group.Fd())
	err = command.Start()
	if errors.Is(err, unix.EBADF) {
		// If the process has no free descriptor, the child gets an invalid one.
		err = fmt.Errorf("%w: %w", err, unix.EMFILE)
	}
	if err != nil {
		return fmt.Errorf("in cgroup %s: %w", directory, err)
	}
	return nil
}

// Includes reports whether a process descends from the restorer, which adopts orphans of its tree.
// In a container the kernel gives them to the container's first process: they are not included.
func (c *Client) Includes(process proc.Identity) bool {
	return c.id.Check() == nil && proc.Descends(process.PID, c.id.PID)
}

// begin sends the order and waits for the tree. If ctx ends it closes the connection to the
// restorer.
func (c *Client) begin(ctx context.Context, order Order, files []*os.File) error {
	if err := c.conn.Deadline(order.Deadline.Add(2 * replyTimeout)); err != nil {
		return fmt.Errorf("restorer: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		giveUp := time.Unix(1, 0)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			giveUp = time.Now().Add(errorGrace) // the restorer has the same deadline and knows what took so long
		}
		_ = c.conn.Deadline(giveUp)
	})
	defer stop()
	order.Group, order.StartGroup = cgroup.Name(groupKind, c.id), cgroup.Name(startKind, c.id)
	if err := c.conn.Send(order, files...); err != nil {
		return fmt.Errorf("restorer: %w", err)
	}
	var reply answer
	if _, err := c.conn.Receive(&reply); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("restorer: %w", err)
	}
	return reply.err()
}

// abandon closes the connection, which makes the restorer kill the tree and exit. It returns when
// both have ended.
func (c *Client) abandon() error {
	_ = c.conn.Close()
	killed := time.AfterFunc(replyTimeout, func() { _ = c.command.Process.Kill() })
	err := c.wait()
	if !killed.Stop() {
		// The restorer could not kill the tree, which has not run yet.
		return Sweep()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	}
	// The restorer was killed. The tree is frozen or partly restored.
	return Sweep()
}

// explain says how a restorer has ended that was needed.
func (c *Client) explain(err error) error {
	if !fdpass.HungUp(err) {
		return err
	}
	defer time.AfterFunc(replyTimeout, func() { _ = c.command.Process.Kill() }).Stop()
	_ = c.wait() // its status is below
	return fmt.Errorf("restorer: pid %d has ended (%v), and the restore with it; restore again",
		c.id.PID, c.command.ProcessState)
}

// Commit lets the tree run and outlive this phosd.
func (c *Client) Commit() error {
	err := errors.Join(c.conn.Deadline(time.Now().Add(replyTimeout)), c.conn.Send(request{Commit: true}))
	var reply answer
	if err == nil {
		_, err = c.conn.Receive(&reply)
	}
	if err != nil {
		return c.explain(fmt.Errorf("restorer: %w", err))
	}
	if err := reply.err(); err != nil {
		return err
	}
	// Reap the restorer, which is a child of this phosd.
	go func() { _ = c.wait() }()
	return c.conn.Close()
}

// WaitEnd waits until a restorer that this phosd has started has ended.
func (c *Client) WaitEnd() { _ = c.wait() }

// Abandon ends a tree that was not committed.
func (c *Client) Abandon() error { return c.abandon() }

// Adopt connects to a restorer by its socket. The error is proc.ErrGone if it has ended.
func Adopt(socket string) (*Client, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("restorer at %s: %w", socket, err)
	}
	defer conn.Close()
	c := &Client{socket: socket, end: newRootEnd()}
	if c.id, err = conn.Peer(); err != nil {
		return nil, fmt.Errorf("restorer at %s: %w", socket, err)
	}
	reply, err := c.ask(context.Background(), request{Describe: true})
	if reply.Uncommitted {
		return nil, fmt.Errorf("restorer at %s: its phosd has ended before the restore: %w", socket, proc.ErrGone)
	}
	c.outside, c.tracks = reply.Outside, reply.Tracks
	c.loading.Store(reply.Loading)
	return c, err
}

// dial connects to a restorer. The error is proc.ErrGone only if the restorer has ended, not if
// this process failed to connect for another reason.
func dial(socket string) (*fdpass.Conn, error) {
	conn, err := fdpass.Dial(socket, replyTimeout)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", proc.ErrGone, err)
	}
	return conn, err
}

// Outside maps pids in the image to those in the pid namespace of the phosd that dumped them, where
// they differ.
func (c *Client) Outside() map[int]int { return c.outside }

// Loading reports whether memory of the tree may still be coming.
func (c *Client) Loading() bool { return c.loading.Load() }

// Loaded waits until all memory of the tree is there. One that was killed for a page that cannot be
// brought back is an error.
func (c *Client) Loaded(ctx context.Context) error {
	if !c.Loading() {
		return nil
	}
	_, err := c.ask(ctx, request{Loaded: true})
	if errors.Is(err, proc.ErrGone) { // the tree has ended
		err = c.end.whyLost(ctx)
	}
	if err == nil {
		c.loading.Store(false)
	}
	return err
}

// Kill ends the tree.
func (c *Client) Kill() error {
	_, err := c.ask(context.Background(), request{Kill: true})
	return err
}

// Signal sends a signal to the root.
func (c *Client) Signal(signal int) error {
	_, err := c.ask(context.Background(), request{Signal: signal})
	return err
}

// Wait waits until the root has ended.
func (c *Client) Wait(ctx context.Context) (status int, err error) {
	reply, err := c.ask(ctx, request{Wait: true})
	if err != nil {
		return 0, err
	}
	c.end.set(reply.Lost)
	return reply.Status, nil
}

// Track returns the userfaultfd that CRIU has made in a process, which is named by its pid in the
// image. The error is ckpt.ErrUntracked if there is none.
func (c *Client) Track(ctx context.Context, pid int) (*os.File, error) {
	if !c.tracks {
		return nil, ckpt.ErrUntracked
	}
	_, files, err := c.askFile(ctx, request{Track: pid})
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("restorer: %d userfaultfds of one process", len(files))
	}
	if err != nil {
		fdpass.Close(files)
		return nil, err
	}
	return files[0], nil
}

// Forget lets the restorer close the userfaultfd of a process.
func (c *Client) Forget(ctx context.Context, pid int) error {
	_, err := c.ask(ctx, request{Forget: pid})
	return err
}

// ask sends a request whose answer has no file.
func (c *Client) ask(ctx context.Context, what request) (answer, error) {
	reply, files, err := c.askFile(ctx, what)
	fdpass.Close(files)
	return reply, err
}

// askFile sends one request over a connection of its own.
func (c *Client) askFile(ctx context.Context, what request) (reply answer, files []*os.File, err error) {
	conn, err := dial(c.socket)
	if err != nil {
		return answer{}, nil, fmt.Errorf("restorer: %w", err)
	}
	defer conn.Close()
	if !what.Wait && !what.Loaded {
		// All other requests are answered at once.
		if err := conn.Deadline(time.Now().Add(replyTimeout)); err != nil {
			return answer{}, nil, fmt.Errorf("restorer: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Deadline(time.Unix(1, 0)) })
	defer stop()
	if err = conn.Send(what); err == nil {
		files, err = conn.Receive(&reply)
	}
	switch {
	case ctx.Err() != nil:
		return answer{}, files, context.Cause(ctx)
	case fdpass.HungUp(err):
		return answer{}, files, fmt.Errorf("restorer: %w", proc.ErrGone)
	case err != nil:
		return answer{}, files, fmt.Errorf("restorer: %w", err)
	}
	return reply, files, reply.err()
}

// Identity returns the restorer's process.
func (c *Client) Identity() proc.Identity { return c.id }

// Processes returns the processes of the tree by their pids in their innermost namespace, which are
// those in the image.
func (c *Client) Processes() (map[int]proc.Identity, error) {
	tree, err := proc.Tree(c.id)
	if err != nil {
		return nil, err
	}
	found := make(map[int]proc.Identity, len(tree))
	for _, stat := range tree[1:] {
		status, err := proc.ReadStatus(stat.PID)
		if proc.Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[status.InnermostPID()] = stat.Identity
	}
	return found, nil
}
