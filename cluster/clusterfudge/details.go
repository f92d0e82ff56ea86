package clusterfudge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/internal/words"
)

// GetLaunchDetails returns a launch with its processes, and the ends of their logs. phos records no
// Xid errors by launch: a GPU that has one is shown as unusable with its node.
func (s *Service) GetLaunchDetails(ctx context.Context, r *wire.GetLaunchDetailsRequest) (*wire.LaunchDetails, error) {
	return as(ctx, s, func(c client) (*wire.LaunchDetails, error) { return c.details(ctx, r.GetId()) })
}

// details returns a launch with everything that is known of it.
func (c client) details(ctx context.Context, id string) (*wire.LaunchDetails, error) {
	k, err := c.ask(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &wire.LaunchDetails{Launch: k.view(), StatusCounts: k.counts()}
	for _, r := range k.GetReplicas() {
		commands, failures := k.processes(r)
		d.Commands = append(d.Commands, commands...)
		d.ImportantLogs = append(d.ImportantLogs, failures...)
	}
	if d.Launch.SchedulingLog, err = c.schedulingLog(ctx, k); err != nil {
		return nil, err
	}
	d.Logs, err = c.logs(ctx, k)
	return d, err
}

// commandID names a process, as phos logs does.
func commandID(launch, job string, replica, process uint32) string {
	return fmt.Sprintf("%s/%s.%d.%d", launch, job, replica, process)
}

// processes returns those of a replica, and what has gone wrong with them.
func (k known) processes(r *api.Replica) (commands []*wire.Command, failures []*wire.ImportantLog) {
	exits := map[uint32]*api.Exit{}
	for _, exit := range r.GetExits() {
		exits[exit.GetProcess()] = exit
	}
	for _, job := range k.spec.Jobs {
		if job.Name != r.GetJob() {
			continue
		}
		for i, p := range job.Processes {
			command := &wire.Command{
				Id: commandID(k.GetId(), job.Name, r.GetIndex(), uint32(i)), ReferenceId: k.GetId(), JobName: job.Name,
				Hostname: r.GetNode(), RequestedBy: k.GetOwner(), RequestedAt: timestamp(k.GetSubmittedUnixMs()),
				AcknowledgedAt: timestamp(r.GetStartedUnixMs()), ExecutionStartedAt: timestamp(r.GetStartedUnixMs()),
				ExecutionCompletedAt: timestamp(r.GetEndedUnixMs()), Command: wire.CommandType_COMMAND_TYPE_LAUNCH,
				CmdLine: p.Command, ResourceRequest: resourcesView(p.Resources), GitRepo: k.spec.Source.Git,
				GitBranch: k.spec.Source.Branch, GitCommit: k.spec.Source.Commit, NodeExclusivity: exclusivity(&k.spec),
			}
			ended(command, r, exits[uint32(i)])
			commands = append(commands, command)
			if text := problem(exits[uint32(i)]); text != "" {
				failures = append(failures, &wire.ImportantLog{
					Id: command.GetId(), Hostname: r.GetNode(), OccurredAt: command.GetExecutionCompletedAt(),
					LaunchId: k.GetId(), ExecCommandId: command.GetId(), TextPayload: text,
				})
			}
		}
	}
	return commands, failures
}

// signalBase is what shells add to the number of a signal that has ended a process.
const signalBase = 128

// ended notes how far a process is, and its end.
func ended(c *wire.Command, r *api.Replica, exit *api.Exit) {
	c.State = stateOf(r.GetPhase(), exit)
	c.ServerState = c.GetState()
	if exit == nil {
		return
	}
	c.ExecErr = exit.GetError()
	code := exit.GetCode()
	if exit.GetSignal() != 0 {
		code = signalBase + exit.GetSignal()
	}
	if exit.GetError() == "" {
		c.ExitCode = wrapperspb.Int32(code)
	}
}

// stateOf returns how far a process is.
func stateOf(phase string, exit *api.Exit) wire.CommandState {
	switch {
	case exit.GetStopped():
		return wire.CommandState_COMMAND_STATE_KILLED
	case exit != nil && (exit.GetCode() != 0 || exit.GetSignal() != 0 || exit.GetError() != ""):
		return wire.CommandState_COMMAND_STATE_FAILED
	case exit != nil || phase == "done":
		return wire.CommandState_COMMAND_STATE_SUCCEEDED
	case phase == "running", phase == "stopping":
		return wire.CommandState_COMMAND_STATE_RUNNING
	case phase == "starting":
		return wire.CommandState_COMMAND_STATE_ACKNOWLEDGED
	case phase == "stopped", phase == "failed":
		return wire.CommandState_COMMAND_STATE_CANCELLED
	}
	return wire.CommandState_COMMAND_STATE_UNACKNOWLEDGED
}

// problem says what has gone wrong with a process; empty: nothing.
func problem(exit *api.Exit) string {
	if exit == nil || exit.GetStopped() {
		return ""
	}
	how := messages.ExitsOf([]*api.Exit{exit})[0]
	if how.OK() {
		return ""
	}
	return how.String()
}

// Bounds of the logs of details.
const (
	logTail = 1000
	// maxLogBytes is half of what the client receives at most in one message.
	maxLogBytes = 2 << 20
	logsTime    = 10 * time.Second
)

// lineBytes is about what a line takes beside its text.
const lineBytes = 150

// logs returns the last lines of each process. What a node does not answer in time is left out, and
// a line says so.
func (c client) logs(ctx context.Context, k known) (lines []*wire.Log, err error) {
	limited, cancel := context.WithTimeout(ctx, logsTime)
	defer cancel()
	stream, err := c.launches.Logs(limited, &api.LogsRequest{What: k.GetId(), Tail: logTail})
	for left := maxLogBytes; err == nil; {
		var reply *api.LogsReply
		if reply, err = stream.Recv(); err != nil {
			break
		}
		for _, line := range reply.GetLines() {
			lines = append(lines, k.line(line))
			left -= len(line.GetText()) + lineBytes
		}
		if left < 0 {
			return append(lines, k.notice("there is more; phos logs "+k.GetId()+" prints it")), nil
		}
		if reply.GetNotice() != "" {
			lines = append(lines, k.notice(reply.GetNotice()))
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !errors.Is(err, io.EOF):
		lines = append(lines, k.notice("the log ends here: "+api.FromStatus(err).Error()))
	}
	return lines, nil
}

// notice returns a line of phos itself.
func (k known) notice(text string) *wire.Log {
	return &wire.Log{Source: "phos", Contents: text, LaunchId: k.GetId(), SeenAt: timestamppb.Now()}
}

// line translates a line of a log.
func (k known) line(line *api.LogLine) *wire.Log {
	at := timestamppb.New(time.Unix(0, line.GetUnixNs()))
	view := &wire.Log{
		Source: "stdout", Contents: valid(line.GetText()), LoggedAt: at, SeenAt: at, LaunchId: k.GetId(),
		ExecCommandId: commandID(k.GetId(), line.GetJob(), line.GetReplica(), line.GetProcess()),
	}
	if line.GetStderr() {
		view.Source = "stderr"
	}
	if n := line.GetDropped(); n > 0 {
		view.Source, view.Contents = "phos", words.CountOf(int(n), "line")+" missing here: "+view.GetContents()
	}
	for _, r := range k.GetReplicas() {
		if r.GetJob() == line.GetJob() && r.GetIndex() == line.GetReplica() {
			view.Hostname = r.GetNode()
		}
	}
	return view
}
