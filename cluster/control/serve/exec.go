package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/record"
)

// Exec runs a command beside a process of a launch, on its node.
func (s *launches) Exec(stream api.Launches_ExecServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if err := checkExec(start); err != nil {
		return err
	}
	what, err := parseSelection(start.GetWhat())
	if err != nil {
		return err
	}
	var at source
	if err := leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, what.id)
		if err == nil {
			err = mayExec(caller, l)
		}
		if err == nil {
			at, err = oneProcess(l, what)
		}
		return err
	}); err != nil {
		return err
	}
	question, err := leader.AskNode(ctx, at.node, &api.Ask{Exec: &api.ExecQuestion{
		Attempt: &api.Attempt{Launch: at.launch, Replica: uint32(at.replica), Attempt: uint32(at.attempt)},
		Process: uint32(at.process), Start: start,
	}})
	if err != nil {
		return fmt.Errorf("%s on node %s: %w", at, at.node, err)
	}
	node, err := question.Carrier(ctx)
	if err != nil {
		return fmt.Errorf("%s on node %s: %w", at, at.node, err)
	}
	note := &execNote{leader: leader, by: caller.Name, at: at, command: start.GetCommand()}
	err = question.Relay(stream, node, &api.ExecStarted{Process: at.String(), Node: at.node}, func(end *api.ExecEnd) {
		note.write(ctx, endOfExec(end))
	})
	note.write(ctx, "the connection was lost, and the command was killed")
	return err
}

// String names the process as phos exec takes it.
func (s source) String() string {
	return fmt.Sprintf("%s/%s.%d.%d", s.launch, s.job, s.index, s.process)
}

// checkExec refuses what no node would start.
func checkExec(start *api.ExecStart) error {
	words := 0
	for _, word := range start.GetCommand() {
		words += len(word) + 1
	}
	switch {
	case start == nil:
		return api.Invalid("the first message is no ExecStart")
	case words <= 1:
		return api.Invalid("there is no command")
	case words > api.MaxExecCommand:
		return fmt.Errorf("%w: the command has %d bytes; at most %d can be sent: put it into a file",
			api.ErrTooLarge, words, api.MaxExecCommand)
	}
	return nil
}

// mayExec returns an error unless a caller may run commands beside processes of a launch: it must
// have the right to change the launch, and, where that is of root, to run launches as root.
func mayExec(caller identity.Caller, l *record.Launch) error {
	if err := mayChange(caller, l.Owner); err != nil {
		return err
	}
	const anyUser = 1 // the uid is known on the node only
	return caller.CheckAccount(l.Owner, anyUser)
}

// oneProcess returns the one process that a selection means. The error names the candidates.
func oneProcess(l *record.Launch, what selection) (source, error) {
	replicas, err := sources(l, what, 0)
	if err != nil {
		return source{}, err
	}
	var found []source
	for _, each := range replicas {
		if !each.live {
			continue
		}
		r := &l.State.Replicas[each.replica]
		for process := range l.State.Spec.Jobs[r.Job].Processes {
			if what.process < 0 || what.process == process {
				each.process = process
				found = append(found, each)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return source{}, fmt.Errorf("%w: launch %s is %s: nothing runs there (phos why %s)",
			api.ErrRefused, l.Label(), l.State.Phase, l.Label())
	}
	const shown = 8
	var names []string
	for _, each := range found[:min(shown, len(found))] {
		names = append(names, each.String())
	}
	if len(found) > shown {
		names = append(names, fmt.Sprintf("and %d more", len(found)-shown))
	}
	return source{}, api.Invalid(fmt.Sprintf("%d processes of launch %s run; name one: %s",
		len(found), l.Label(), strings.Join(names, ", ")))
}

// Exec lends the stream of an agent to the user's request.
func (s *agents) Exec(stream api.Agents_ExecServer) error {
	ctx := stream.Context()
	caller, err := s.node(ctx)
	if err != nil {
		return err
	}
	leader, err := s.Leading(ctx)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	q := leader.Questions().Find(first.GetQuestion(), caller.Name)
	if q == nil {
		return api.Invalid("no such question")
	}
	return q.Carry(ctx, stream)
}

// execNote is the event about a command of phos exec.
type execNote struct {
	leader  *control.Leader
	by      string
	at      source
	command [][]byte
	once    sync.Once
}

// Limits of the event.
const (
	// noteRunes is how much of a command it has.
	noteRunes = 200
	// noteTime is how long the store may take: the command has ended, and its user waits.
	noteTime = 5 * time.Second
)

// write adds the event to those of the launch, with how the command has ended. Only the first call
// does. The request may be over. Without the event, the command has ended all the same.
func (n *execNote) write(ctx context.Context, end string) {
	n.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
		defer cancel()
		_ = n.leader.Ask(ctx, func(t control.Turn) error {
			if l := t.Find(n.at.launch); l != nil {
				t.Note(l, record.ExecEvent, fmt.Sprintf("%s ran %s in %s.%d.%d on %s: %s",
					n.by, shownCommand(n.command), n.at.job, n.at.index, n.at.process, n.at.node, end))
			}
			return nil
		})
	})
}

// shownCommand returns the words of a command, shortened.
func shownCommand(words [][]byte) string {
	text := []rune(strings.ToValidUTF8(string(bytes.Join(words, []byte(" "))), "\ufffd"))
	if len(text) > noteRunes {
		text = append(text[:noteRunes-1], '…')
	}
	return string(text)
}

// endOfExec says how a command has ended.
func endOfExec(end *api.ExecEnd) string {
	text := fmt.Sprintf("exit %d", end.GetCode())
	if end.GetSignal() != 0 {
		text = fmt.Sprintf("signal %d", end.GetSignal())
	}
	if end.GetError() != "" {
		text += ": " + end.GetError()
	}
	return text
}
