package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// execution is a command that runs beside a process, with the stream to the leader that asked for
// it. The command is killed when the stream ends.
type execution struct {
	stream  api.Agents_ExecClient
	streams *execStreams
	runs    *supervisor.Exec

	sending sync.Mutex // one reply at a time
	// received is closed when nothing more comes for the command.
	received chan struct{}
	// pending are parts of the input that the command has not taken; nil is its end. They have
	// pendingBytes.
	pending      *backlog.List[[]byte]
	pendingBytes atomic.Int64
}

// Exit statuses of commands that were not started, as shells have them.
const (
	statusNotExecuted = 126
	statusNotFound    = 127
)

// Exec implements link.Host: it runs a command that the leader has asked for.
func (a *Agent) Exec(ctx context.Context, client api.AgentsClient, ask *api.Ask) {
	opened, err := client.Exec(ctx)
	if err != nil {
		return // the leader is gone
	}
	x := &execution{stream: opened, received: make(chan struct{}), pending: backlog.New[[]byte]()}
	if x.send(&api.ExecReply{Message: &api.ExecReply_Question{Question: ask.GetQuestion()}}) != nil {
		return
	}
	end, err := x.run(ctx, a, ask.GetExec())
	if err != nil {
		end = &api.ExecEnd{Code: statusNotExecuted, Error: err.Error()}
		if errors.Is(err, fs.ErrNotExist) {
			end.Code = statusNotFound
		}
	}
	if x.send(&api.ExecReply{Message: &api.ExecReply_End{End: end}}) != nil || opened.CloseSend() != nil {
		return
	}
	if x.runs == nil {
		x.receive()
	}
	<-x.received // the leader has all of it
}

// send sends a reply.
func (x *execution) send(reply *api.ExecReply) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	return x.stream.Send(reply)
}

// run runs the command. The error is why it was not started.
func (x *execution) run(ctx context.Context, a *Agent, q *api.ExecQuestion) (*api.ExecEnd, error) {
	runs, order, err := a.execOrder(q)
	if err != nil {
		return nil, err
	}
	spec, err := runs.Spec()
	if err != nil {
		return nil, err
	}
	if order.Process >= len(spec.Processes) {
		return nil, supervisor.ErrProcess
	}
	if x.streams, err = openExecStreams(q.GetStart(), spec.Processes[order.Process].UID); err != nil {
		return nil, err
	}
	defer x.streams.close()
	begun, err := runs.Exec(ctx, order, x.streams.theirs)
	x.streams.closeTheirs()
	if err != nil {
		return nil, err
	}
	x.runs = begun
	defer x.runs.Close()
	go x.receive()
	stop := context.AfterFunc(x.stream.Context(), func() { _ = x.runs.Close() })
	defer stop()
	if err := x.send(&api.ExecReply{Message: &api.ExecReply_Started{Started: &api.ExecStarted{}}}); err != nil {
		return &api.ExecEnd{}, nil //nolint:nilerr // the leader is gone
	}
	return x.follow(), nil
}

// execOrder returns what the supervisor of an attempt is asked for.
func (a *Agent) execOrder(q *api.ExecQuestion) (*supervisor.Attempt, supervisor.ExecOrder, error) {
	order := supervisor.ExecOrder{
		Process: int(q.GetProcess()), Command: q.GetStart().GetCommand(), Terminal: q.GetStart().GetTerminal(),
	}
	if term := q.GetStart().GetTerm(); term != "" && order.Terminal {
		order.Variables = []string{"TERM=" + term}
	}
	t := a.attempts.find(keyOf(q.GetAttempt()))
	if t == nil {
		return nil, order, errors.New("the process has ended")
	}
	runs := t.started()
	if runs == nil {
		return nil, order, errors.New("the process was not started yet: " + t.last().GetProgress())
	}
	from, restored := restoreOf(runs)
	if restored {
		told, found := saver.ReadRestored(from.Tell)
		if !found || told.Error != "" || told.Root == (proc.Identity{}) {
			return nil, order, errors.New("the process is being restored from its image: try again in some seconds")
		}
		if order.Restored, found = restoredProcess(runs, told.Root, order.Process); !found {
			return nil, order, errors.New("the process has ended")
		}
	}
	return runs, order, nil
}

// follow passes on what comes and goes until the command has ended.
func (x *execution) follow() *api.ExecEnd {
	go x.feed()
	defer x.pending.Close()
	var copies sync.WaitGroup
	for i, from := range x.streams.outputs {
		copies.Go(func() { x.copy(from, i == 1) })
	}
	end, err := x.runs.Wait()
	x.streams.drain()
	copies.Wait()
	if err != nil { // with the last process its supervisor ends, perhaps before it has answered
		end = supervisor.ExecEnd{Signal: int(unix.SIGKILL), Orphaned: true}
	}
	told := &api.ExecEnd{Code: int32(end.Code), Signal: int32(end.Signal)}
	if end.Orphaned {
		told.Error = "the process has ended"
	}
	return told
}

// copy sends what the command prints. It waits while the user's side takes nothing.
func (x *execution) copy(from *os.File, complaints bool) {
	buffer := make([]byte, api.ExecPart)
	for {
		x.streams.limit(from)
		n, err := from.Read(buffer)
		if n > 0 {
			reply := &api.ExecReply{Message: &api.ExecReply_Output{Output: buffer[:n]}}
			if complaints {
				reply.Message = &api.ExecReply_ErrorOutput{ErrorOutput: buffer[:n]}
			}
			if x.send(reply) != nil {
				return
			}
		}
		if err != nil { // a terminal that is not open any more has an error of its own
			return
		}
	}
}

// receive takes what comes for the command, if it runs. It ends with the stream.
func (x *execution) receive() {
	defer close(x.received)
	for {
		request, err := x.stream.Recv()
		if err != nil {
			return
		}
		if x.runs == nil {
			continue
		}
		switch m := request.GetMessage().(type) {
		case *api.ExecRequest_Input:
			if x.pendingBytes.Add(int64(len(m.Input))) > api.ExecWindow {
				_ = x.runs.Close() // no client of ours sends more than it may
			} else if len(m.Input) > 0 {
				x.pending.Add(m.Input)
			}
		case *api.ExecRequest_InputEnded:
			x.pending.Add(nil)
		case *api.ExecRequest_Signal:
			_ = x.runs.Signal(unix.Signal(m.Signal)) // fails if it has ended
		case *api.ExecRequest_Size:
			x.streams.resize(m.Size)
		}
	}
}

// feed gives the input to the command, and says how much it has taken.
func (x *execution) feed() {
	for ended := false; ; {
		for _, part := range x.pending.Take() {
			if part == nil {
				ended = true
				x.streams.endInput()
				continue
			}
			if !ended {
				_, _ = x.streams.input.Write(part) // a command that does not read gets nothing
			}
			x.pendingBytes.Add(-int64(len(part)))
			if x.send(&api.ExecReply{Message: &api.ExecReply_Taken{Taken: uint32(len(part))}}) != nil {
				return
			}
		}
		select {
		case <-x.pending.Ready():
		case <-x.stream.Context().Done():
			return
		}
	}
}
