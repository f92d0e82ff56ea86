package restorer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// patience is how long a keeper may take to answer what it can answer at once.
const patience = 30 * time.Second

// lastWords is how long it may take a keeper to say why it did not meet its deadline.
const lastWords = 5 * time.Second

// Client is a keeper as phosd has it.
type Client struct {
	socket  string
	id      proc.Identity
	outside map[int]int
	// pids are those that the tree is to have; none where they all end with the keeper.
	pids []int
	// conn and command are nil for a keeper that another phosd has started.
	conn    *fdpass.Conn
	command *exec.Cmd
}

// Start starts a keeper by the command that makes phosd one, and returns when the tree is back and
// stands still.
func Start(ctx context.Context, program []string, socket string, order Order, files []*os.File) (*Client, error) {
	near, far, err := fdpass.Pair()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	command := spawn(program, order, far)
	err = startIn(order.Cgroup, command)
	_ = far.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start keeper: %w", err), near.Close())
	}
	c := &Client{socket: socket, conn: near, command: command}
	if !order.NewPids && len(order.Namespaces) == 0 {
		c.pids = order.PIDs
	}
	if c.id, err = proc.Of(command.Process.Pid); err == nil {
		err = c.begin(ctx, order, files)
	}
	if err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	return c, nil
}

func spawn(program []string, order Order, far *os.File) *exec.Cmd {
	command := exec.Command(program[0], append(program[1:], Role)...)
	command.Env, command.Dir, command.Stderr = []string{}, "/", os.Stderr
	command.ExtraFiles = []*os.File{far}
	// The session is the one that a restored shell's job is in.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if order.NewPids {
		command.Args = append(command.Args, strconv.Itoa(gap(order.PIDs)))
		command.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	return command
}

// startIn starts a keeper in the cgroup in which its tree shall be, or in this process's. To be
// born there takes nothing; to move there would take the kernel milliseconds, and everybody who
// starts threads would wait with it.
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
		// What is moved in the new process, to a number above all others, finds none.
		err = fmt.Errorf("%w: %w", err, unix.EMFILE)
	}
	if err != nil {
		return fmt.Errorf("in cgroup %s: %w", directory, err)
	}
	return nil
}

// begin hands the order over and waits for the tree. When the context ends the keeper sees the end
// of the conversation.
func (c *Client) begin(ctx context.Context, order Order, files []*os.File) error {
	if err := c.conn.Deadline(order.Deadline.Add(2 * patience)); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		giveUp := time.Unix(1, 0)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			giveUp = time.Now().Add(lastWords) // the keeper has the same deadline, and knows what took so long
		}
		_ = c.conn.Deadline(giveUp)
	})
	defer stop()
	order.Group = cgroup.Name(groupKind, c.id)
	if err := c.conn.Send(order, files...); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	var said answer
	if _, err := c.conn.Receive(&said); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("keeper: %w", err)
	}
	return said.err()
}

// abandon ends the conversation, and with it the keeper and the tree; it returns when both are
// gone.
func (c *Client) abandon() error {
	_ = c.conn.Close()
	killed := time.AfterFunc(patience, func() { _ = c.command.Process.Kill() })
	err := c.command.Wait()
	if !killed.Stop() {
		// It could not end the tree, which has not run yet.
		return errors.Join(Sweep(), c.endOrphans())
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	}
	// Whoever killed it has left the tree, which stands still or is half made.
	return errors.Join(Sweep(), c.endOrphans())
}

// Commit lets the tree run, and outlive this phosd.
func (c *Client) Commit() error {
	if err := errors.Join(c.conn.Deadline(time.Now().Add(patience)), c.conn.Send(request{Commit: true})); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	var said answer
	if _, err := c.conn.Receive(&said); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	if err := said.err(); err != nil {
		return err
	}
	// It is a child that nobody waits for otherwise.
	go func() { _ = c.command.Wait() }()
	return c.conn.Close()
}

// Abandon ends a tree that was not committed.
func (c *Client) Abandon() error { return c.abandon() }

// Adopt finds a keeper by its socket; process.ErrGone when there is none any more.
func Adopt(socket string) (*Client, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("keeper at %s: %w", socket, err)
	}
	defer conn.Close()
	pid, err := conn.Peer()
	if err != nil {
		return nil, fmt.Errorf("keeper at %s: %w", socket, err)
	}
	c := &Client{socket: socket}
	if c.id, err = proc.Of(pid); err != nil {
		return nil, err
	}
	said, err := c.ask(context.Background(), request{Describe: true})
	c.outside = said.Outside
	return c, err
}

// dial reaches a keeper; process.ErrGone when there is none. That this process cannot reach anybody
// is another matter.
func dial(socket string) (*fdpass.Conn, error) {
	conn, err := fdpass.Dial(socket, patience)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", proc.ErrGone, err)
	}
	return conn, err
}

// Outside are the pids that the processes had for the phosd that dumped them, by those in the
// image, where they differ.
func (c *Client) Outside() map[int]int { return c.outside }

// Kill ends the tree.
func (c *Client) Kill() error {
	_, err := c.ask(context.Background(), request{Kill: true})
	return err
}

// Signal sends one to the root.
func (c *Client) Signal(signal int) error {
	_, err := c.ask(context.Background(), request{Signal: signal})
	return err
}

// Wait waits until the root has ended.
func (c *Client) Wait(ctx context.Context) (status int, err error) {
	said, err := c.ask(ctx, request{Wait: true})
	if err != nil {
		return 0, err
	}
	return said.Status, nil
}

func (c *Client) ask(ctx context.Context, what request) (answer, error) {
	conn, err := dial(c.socket)
	if err != nil {
		return answer{}, fmt.Errorf("keeper: %w", err)
	}
	defer conn.Close()
	if !what.Wait {
		// All else it can answer at once.
		if err := conn.Deadline(time.Now().Add(patience)); err != nil {
			return answer{}, fmt.Errorf("keeper: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Deadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.Send(what); err != nil {
		return answer{}, fmt.Errorf("keeper: %w", err)
	}
	var said answer
	_, err = conn.Receive(&said)
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return answer{}, fmt.Errorf("keeper: %w", proc.ErrGone)
	case err != nil:
		return answer{}, fmt.Errorf("keeper: %w", err)
	}
	return said, said.err()
}

// Identity is the keeper's process.
func (c *Client) Identity() proc.Identity { return c.id }

// Processes are those of the tree, by the pid that they have in their innermost namespace: that of
// the image.
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
