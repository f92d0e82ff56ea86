package inventory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// cacheTime is how long an inventory answers later requests.
	cacheTime = 500 * time.Millisecond
	// answerTimeout is how long NVML may take. It first wakes idle GPUs, which takes a second or two
	// each. With a lost GPU it may hang.
	answerTimeout = 30 * time.Second
	// maxLine is more than 64 GPUs with a thousand processes each.
	maxLine = 16 << 20
	// restartDelay is between two starts of a child that exits.
	restartDelay = 5 * time.Second
)

// ErrNoAnswer is returned when the child does not answer; the driver may hang.
var ErrNoAnswer = errors.New("NVML does not answer")

// Watch is phosd's end. It runs the child that queries NVML, and another one when that has exited.
type Watch struct {
	// Enter, if not nil, prepares the child before it starts, so that the device policy allows it.
	Enter func(command *exec.Cmd)

	command []string
	// report is called for each event, one at a time.
	report func(Event)

	mu sync.Mutex // guards all below
	// pending is closed when the query in flight is answered; nil: there is none.
	pending chan struct{}
	latest  *Inventory
	failed  error
	taken   time.Time
	child   *child
	// started is when the last child was started.
	started time.Time
	closed  bool
}

// NewWatch returns a Watch whose child is started by a command, which calls Serve. The child is
// started by the first query. Events are passed to report, which may be nil.
func NewWatch(command []string, report func(Event)) *Watch {
	if report == nil {
		report = func(Event) {}
	}
	return &Watch{command: command, report: report}
}

// Inventory returns a snapshot that is at most cacheTime old. If the context ends before the driver
// has answered, it returns the last one.
func (w *Watch) Inventory(ctx context.Context) (*Inventory, error) {
	answered := w.query()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest == nil && w.failed == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	}
	return w.latest, w.failed
}

// query starts a query, unless one is in flight or the last answer is fresh. The channel is closed
// when there is an answer.
func (w *Watch) query() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending != nil {
		return w.pending
	}
	answered := make(chan struct{})
	if w.latest != nil && time.Since(w.taken) < cacheTime {
		close(answered)
		return answered
	}
	if err := w.start(); err != nil {
		w.latest, w.failed = nil, err
		close(answered)
		return answered
	}
	w.pending = answered
	go w.finish(w.child)
	return answered
}

// finish waits for the answer. It kills a child that does not answer, because its next line would
// be the answer to this query.
func (w *Watch) finish(c *child) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	found, err := c.query(ctx)
	if _, ok := errors.AsType[*failure](err); err != nil && !ok {
		c.kill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest, w.failed, w.taken = found, err, time.Now()
	close(w.pending)
	w.pending = nil
}

// start starts a child if none runs.
func (w *Watch) start() error {
	switch {
	case w.closed:
		return fmt.Errorf("%w: phosd is stopping", ErrNoAnswer)
	case w.child != nil && !w.child.ended():
		return nil
	case w.child != nil && time.Since(w.started) < restartDelay:
		return fmt.Errorf("%w: the process that queries it has exited", ErrNoAnswer)
	}
	w.started = time.Now()
	started, err := startChild(w.newCommand(), w.report)
	if err != nil {
		return err
	}
	w.child = started
	return nil
}

func (w *Watch) newCommand() *exec.Cmd {
	command := exec.Command(w.command[0], w.command[1:]...)
	command.Stderr = os.Stderr
	if w.Enter != nil {
		w.Enter(command)
	}
	return command
}

// Close kills the child.
func (w *Watch) Close() error {
	w.mu.Lock()
	w.closed = true
	c := w.child
	w.mu.Unlock()
	if c != nil {
		c.kill()
		<-c.done
	}
	return nil
}

// child is one process that queries NVML.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	answers chan message
	done    chan struct{}
}

func startChild(command *exec.Cmd, report func(Event)) (*child, error) {
	c := &child{command: command, answers: make(chan message, 1), done: make(chan struct{})}
	in, err := c.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start NVML query: %w", err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start NVML query: %w", err), in.Close())
	}
	c.in = in
	if err := c.command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start NVML query: %w", err), in.Close(), out.Close())
	}
	go c.read(out, report)
	return c, nil
}

// read reads answers and events until the child has exited.
func (c *child) read(out io.Reader, report func(Event)) {
	defer close(c.done)
	defer close(c.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			break
		}
		if m.Event != nil {
			report(*m.Event)
			continue
		}
		select {
		case c.answers <- m:
		default: // an answer to no query
		}
	}
	c.kill()
	_ = c.command.Wait() // it was killed, or has logged why it exited
}

// query writes a query and waits for its answer.
func (c *child) query(ctx context.Context) (*Inventory, error) {
	if _, err := io.WriteString(c.in, query); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	case m, open := <-c.answers:
		switch {
		case !open || m.Failed == "" && m.Inventory == nil:
			return nil, fmt.Errorf("%w: the process that queries it has exited", ErrNoAnswer)
		case m.Failed != "":
			return nil, &failure{text: m.Failed, kind: m.Kind}
		}
		return m.Inventory, nil
	}
}

// ended reports whether the process has exited. It does not block.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// kill sends SIGKILL: with a lost GPU the child may hang in the driver.
func (c *child) kill() {
	_ = c.in.Close()
	_ = c.command.Process.Kill()
}
