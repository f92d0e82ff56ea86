package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/cluster/linelog/answer"
	"github.com/phos-gpu/phos/cluster/record"
)

// maxKeptPart is the most of a log that one request has.
const maxKeptPart = 1 << 20

// KeepLog keeps the end of a log of an attempt that runs or ran on the caller's node.
func (s *agents) KeepLog(ctx context.Context, request *api.KeepLogRequest) (*api.KeepLogReply, error) {
	caller, err := s.node(ctx)
	if err != nil {
		return nil, err
	}
	leader, err := s.Leading(ctx)
	if err != nil {
		return nil, err
	}
	if len(request.GetRecords()) > maxKeptPart {
		return nil, fmt.Errorf("%w: %d bytes of a log at once; at most %d are taken", api.ErrTooLarge, len(request.GetRecords()), maxKeptPart)
	}
	of := attemptNamed(request.GetAttempt())
	if err := s.mayKeep(ctx, leader, of, caller.Name); err != nil {
		return nil, err
	}
	next, err := s.logs.Append(of, caller.Name, request.GetOffset(), request.GetRecords())
	if errors.Is(err, linelog.ErrMirror) {
		return nil, api.Invalid(err.Error())
	}
	return &api.KeepLogReply{Next: next}, err
}

// mayKeep refuses logs of attempts that a node has not run.
func (s *agents) mayKeep(ctx context.Context, leader *control.Leader, of logs.Attempt, node string) error {
	if s.logs.Comes(of, node) {
		return nil
	}
	return leader.Ask(ctx, func(t control.Turn) error {
		l := t.Find(of.Launch)
		if l == nil || l.ID != of.Launch || !ranOn(l, of, node) {
			return fmt.Errorf("%w: attempt %d of replica %d of launch %.100q on node %s",
				api.ErrNotFound, of.Attempt, of.Replica, of.Launch, node)
		}
		return nil
	})
}

// attemptNamed converts the name of an attempt.
func attemptNamed(a *api.Attempt) logs.Attempt {
	return logs.Attempt{Launch: a.GetLaunch(), Replica: int(a.GetReplica()), Attempt: int(a.GetAttempt())}
}

// ranOn reports whether an attempt has had processes on a node.
func ranOn(l *record.Launch, of logs.Attempt, node string) bool {
	return slices.ContainsFunc(l.Spans, func(span record.Span) bool {
		return span.Replica == of.Replica && span.Attempt == of.Attempt && span.Node == node
	})
}

// fromKept takes the lines of an attempt that the controller keeps, because its node is silent.
func (s *logStream) fromKept() {
	reader, grown, err := s.kept.Open(attemptNamed(s.wanted.GetAttempt()))
	if err != nil {
		return // the notice says that the log is missing
	}
	defer reader.Close()
	part := &api.AnswerPart{}
	picker := answer.Picker{Question: s.wanted, Send: func(line *api.LogLine) error {
		part.Lines = append(part.Lines, line)
		return nil
	}}
	if err := picker.TakeAll(reader); err != nil {
		s.err = err
		return
	}
	s.add(part)
	s.err = &keptError{grown}
}

// keptError says that a log is read of what its node has sent before it was silent.
type keptError struct{ last time.Time }

func (e *keptError) Error() string {
	return fmt.Sprintf("%v; these are the lines that it had sent by %s", session.ErrNodeSilent, e.last.Format(time.DateTime))
}
