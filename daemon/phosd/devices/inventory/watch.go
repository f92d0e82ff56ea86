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
	// freshFor is how long an inventory is good for whoever asks next: many may.
	freshFor = 500 * time.Millisecond
	// answerTime is how long NVML may take. It begins with waking GPUs that nobody uses, a second or
	// two each; with a lost one it may take for ever.
	answerTime = 30 * time.Second
	// longestLine is more than 64 GPUs with a thousand processes each.
	longestLine = 16 << 20
	// pauseBetween processes that end at once.
	pauseBetween = 5 * time.Second
)

// ErrNoAnswer means that the process which asks NVML does not answer; the driver may hang.
var ErrNoAnswer = errors.New("NVML does not answer")

// Watch is phosd's end: it runs the process that asks, and another when that has ended.
type Watch struct {
	// Enter, if not nil, prepares the process before it starts: where GPUs are kept for phosd's own,
	// it must be one of these.
	Enter func(command *exec.Cmd)

	command []string
	// tell is called for each event, one at a time.
	tell func(Event)

	mu sync.Mutex // guards all below
	// asking is closed when the question under way is answered; nil: there is none.
	asking chan struct{}
	latest *Inventory
	failed error
	taken  time.Time
	child  *child
	// before is when the last process was started.
	before time.Time
	closed bool
}

// NewWatch asks by the command, which ends up in Serve. Nothing is started before somebody asks.
// tell hears of the events; nil: nobody does.
func NewWatch(command []string, tell func(Event)) *Watch {
	if tell == nil {
		tell = func(Event) {}
	}
	return &Watch{command: command, tell: tell}
}

// Inventory is how things stand now, or stood a moment ago. When the context is done before the
// driver has answered, it is how they stood last.
func (w *Watch) Inventory(ctx context.Context) (*Inventory, error) {
	asked := w.ask()
	select {
	case <-asked:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest == nil && w.failed == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	}
	return w.latest, w.failed
}

// ask sees to it that there is a question under way, or a fresh answer; the channel is closed when
// there is an answer.
func (w *Watch) ask() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asking != nil {
		return w.asking
	}
	answered := make(chan struct{})
	if w.latest != nil && time.Since(w.taken) < freshFor {
		close(answered)
		return answered
	}
	if err := w.start(); err != nil {
		w.latest, w.failed = nil, err
		close(answered)
		return answered
	}
	w.asking = answered
	go w.finish(w.child)
	return answered
}

// finish asks, and ends a process that does not answer: its next line would be the answer to this
// question.
func (w *Watch) finish(c *child) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	found, err := c.ask(ctx)
	if _, said := errors.AsType[*failure](err); err != nil && !said {
		c.kill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest, w.failed, w.taken = found, err, time.Now()
	close(w.asking)
	w.asking = nil
}

// start sees to a process that can be asked.
func (w *Watch) start() error {
	switch {
	case w.closed:
		return fmt.Errorf("%w: phosd ends", ErrNoAnswer)
	case w.child != nil && !w.child.ended():
		return nil
	case w.child != nil && time.Since(w.before) < pauseBetween:
		return fmt.Errorf("%w: the process that asks has ended", ErrNoAnswer)
	}
	w.before = time.Now()
	started, err := startChild(w.prepared(), w.tell)
	if err != nil {
		return err
	}
	w.child = started
	return nil
}

func (w *Watch) prepared() *exec.Cmd {
	command := exec.Command(w.command[0], w.command[1:]...)
	command.Stderr = os.Stderr
	if w.Enter != nil {
		w.Enter(command)
	}
	return command
}

// Close ends the process, and any question.
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

// child is one process that asks.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	answers chan message
	done    chan struct{}
}

func startChild(command *exec.Cmd, tell func(Event)) (*child, error) {
	c := &child{command: command, answers: make(chan message, 1), done: make(chan struct{})}
	in, err := c.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("ask NVML: %w", err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask NVML: %w", err), in.Close())
	}
	c.in = in
	if err := c.command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("ask NVML: %w", err), in.Close(), out.Close())
	}
	go c.read(out, tell)
	return c, nil
}

// read sorts the lines until the process has ended.
func (c *child) read(out io.Reader, tell func(Event)) {
	defer close(c.done)
	defer close(c.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			break
		}
		if m.Event != nil {
			tell(*m.Event)
			continue
		}
		select {
		case c.answers <- m:
		default: // an answer that nobody has waited for
		}
	}
	c.kill()
	_ = c.command.Wait() // it was killed, or says on stderr why it has ended
}

func (c *child) ask(ctx context.Context) (*Inventory, error) {
	if _, err := io.WriteString(c.in, question); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	case m, open := <-c.answers:
		switch {
		case !open || m.Failed == "" && m.Inventory == nil:
			return nil, fmt.Errorf("%w: the process that asks has ended", ErrNoAnswer)
		case m.Failed != "":
			return nil, &failure{text: m.Failed, kind: m.Kind}
		}
		return m.Inventory, nil
	}
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// kill is by force: with a lost GPU it may be inside of the driver.
func (c *child) kill() {
	_ = c.in.Close()
	_ = c.command.Process.Kill()
}
