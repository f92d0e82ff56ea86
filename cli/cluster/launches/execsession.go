package launches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// errCutOff means that the connection to the cluster has ended before the command.
var errCutOff = errors.New("the connection to the cluster was lost")

// execSession is one command with the streams of this process.
type execSession struct {
	to     verb.Streams
	start  *api.ExecStart
	input  *os.File // nil: none is passed on
	stream api.Launches_ExecClient

	mu     sync.Mutex // guards all below, and is held while a message is sent
	begun  bool       // the command runs
	credit int        // bytes of input that may be sent
	more   *sync.Cond // credit has grown
}

// run runs the command to its end.
func (x *execSession) run(ctx context.Context, launches api.LaunchesClient) (*api.ExecEnd, error) {
	// Signals are the command's; only a terminal that is gone ends this.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	x.credit, x.more = api.ExecWindow, sync.NewCond(&x.mu)
	var err error
	if x.stream, err = launches.Exec(ctx); err != nil {
		return nil, err
	}
	stop := x.catch(cancel)
	defer stop()
	// If it fails, Recv returns the reason.
	_ = x.send(&api.ExecRequest{Message: &api.ExecRequest_Start{Start: x.start}})
	for {
		reply, err := x.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errCutOff
		case errors.Is(err, api.ErrUnavailable) && x.hasBegun():
			return nil, fmt.Errorf("%w: %w", errCutOff, err)
		case err != nil:
			return nil, err
		}
		switch m := reply.GetMessage().(type) {
		case *api.ExecReply_Started:
			x.begin()
			go x.feed()
		case *api.ExecReply_Output:
			_, err = x.to.Out.Write(m.Output)
		case *api.ExecReply_ErrorOutput:
			_, err = x.to.Err.Write(m.ErrorOutput)
		case *api.ExecReply_Taken:
			x.taken(int(m.Taken))
		case *api.ExecReply_End:
			return m.End, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// send sends a message.
func (x *execSession) send(message *api.ExecRequest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stream.Send(message)
}

// begin notes that the command runs.
func (x *execSession) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun = true
}

// hasBegun reports whether the command runs, or has run.
func (x *execSession) hasBegun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begun
}

// taken notes that the command has taken input.
func (x *execSession) taken(count int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credit += count
	x.more.Signal()
}

// reserve waits until input may be sent, and returns how much, up to a part.
func (x *execSession) reserve() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.credit < api.ExecPart {
		x.more.Wait()
	}
	return api.ExecPart
}

// feed passes the input on until its end, or that of the process.
func (x *execSession) feed() {
	buffer := make([]byte, api.ExecPart)
	for x.input != nil {
		n, err := x.input.Read(buffer[:x.reserve()])
		if n > 0 {
			x.taken(-n)
			if x.send(&api.ExecRequest{Message: &api.ExecRequest_Input{Input: buffer[:n]}}) != nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	if x.input != nil || !x.start.GetTerminal() { // with a terminal and no input, one only looks
		_ = x.send(&api.ExecRequest{Message: &api.ExecRequest_InputEnded{InputEnded: true}})
	}
}

// catch passes signals on to the command, and changes of the window's size. hangUp ends the
// session, for a terminal that is gone or a command that has not begun.
func (x *execSession) catch(hangUp func()) (stop func()) {
	caught := make(chan os.Signal, 16)
	watched := []os.Signal{unix.SIGWINCH}
	for _, each := range []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2,
	} {
		if !signal.Ignored(each) {
			watched = append(watched, each)
		}
	}
	signal.Notify(caught, watched...)
	go func() {
		for each := range caught {
			number, _ := each.(syscall.Signal) // always so on Linux
			switch {
			case number == unix.SIGWINCH && !x.start.GetTerminal():
			case number == unix.SIGWINCH: // what fails here, Recv returns the reason of
				_ = x.send(&api.ExecRequest{Message: &api.ExecRequest_Size{Size: windowSize()}})
			case number == unix.SIGHUP, !x.hasBegun():
				hangUp()
			default:
				_ = x.send(&api.ExecRequest{Message: &api.ExecRequest_Signal{Signal: int32(number)}})
			}
		}
	}()
	return func() {
		signal.Stop(caught)
		close(caught)
	}
}

// windowSize returns the size of the caller's terminal; nil: it has none.
func windowSize() *api.WindowSize {
	size := terminal.Size(os.Stdin, os.Stdout, os.Stderr)
	if size == nil {
		return nil
	}
	return &api.WindowSize{Rows: uint32(size.Row), Columns: uint32(size.Col)}
}
