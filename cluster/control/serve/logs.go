package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// Logs sends what processes have printed. While it follows, attempts that start later are included.
func (s *launches) Logs(request *api.LogsRequest, stream api.Launches_LogsServer) error {
	ctx := stream.Context()
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return err
	}
	what, err := parseSelection(request.GetWhat())
	if err != nil {
		return err
	}
	f := &logFollower{
		leader: leader, kept: s.logs, request: request, what: what, caller: caller, send: stream.Send, seen: map[[2]int]bool{},
	}
	return f.run(ctx)
}

// logFollower merges the logs of the attempts of a launch.
type logFollower struct {
	leader  *control.Leader
	kept    *logs.Store
	request *api.LogsRequest
	what    selection
	caller  identity.Caller
	send    func(*api.LogsReply) error
	seen    map[[2]int]bool // replica and attempt
}

// run sends what is there, and then, if asked to follow, what comes until the launch has ended.
func (f *logFollower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := watch(ctx, f.leader, func(t control.Turn) (wants[struct{}], error) {
		l, err := visible(t, f.caller, f.what.id)
		if err != nil {
			return wants[struct{}]{}, err
		}
		id := l.ID
		return wants[struct{}]{launch: func(other *record.Launch) (struct{}, bool) { return struct{}{}, other.ID == id }}, nil
	})
	if err != nil {
		return err
	}
	defer f.leader.Unwatch(w)
	merged := newMerge()
	for {
		ended, err := f.open(ctx, merged)
		if err != nil {
			return err
		}
		if err := merged.drain(ctx, w.ready, f.send); err != nil {
			return err
		}
		if merged.empty() && (ended || !f.request.GetFollow()) {
			return nil
		}
		if _, err := w.take(); err != nil {
			return err
		}
	}
}

// open asks for the logs of attempts that are new. ended reports whether no more will come.
func (f *logFollower) open(ctx context.Context, merged *merge) (ended bool, err error) {
	var fresh []source
	err = f.leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, f.caller, f.what.id)
		if err != nil {
			return err
		}
		ended = l.State.Phase == launch.Ended
		all, err := sources(l, f.what, int(f.request.GetAttempt()))
		for _, each := range all {
			if key := [2]int{each.replica, each.attempt}; !f.seen[key] {
				f.seen[key] = true
				fresh = append(fresh, each)
			}
		}
		return err
	})
	for _, each := range fresh {
		merged.add(f.ask(ctx, each))
	}
	return ended, err
}

// ask asks a node for the log of an attempt. Of a silent node, the lines are read that the
// controller keeps.
func (f *logFollower) ask(ctx context.Context, at source) *logStream {
	s := &logStream{source: at, kept: f.kept, wanted: &api.LogQuestion{
		Attempt: &api.Attempt{Launch: at.launch, Replica: uint32(at.replica), Attempt: uint32(at.attempt)},
		Process: int32(at.process), Follow: f.request.GetFollow() && at.live, Tail: f.request.GetTail(),
		SinceUnixNs: f.request.GetSinceUnixNs(),
	}}
	s.question, s.err = f.leader.AskNode(ctx, at.node, &api.Ask{Logs: s.wanted})
	if errors.Is(s.err, session.ErrNodeSilent) {
		s.fromKept()
	}
	return s
}

// notice says what is missing of an attempt's log.
func (s *logStream) notice(err error) string {
	name := fmt.Sprintf("%s.%d (attempt %d) on %s", s.source.job, s.source.index, s.source.attempt, s.source.node)
	if errors.Is(err, session.ErrNodeSilent) {
		return name + ": the node does not answer now, so its log is missing here"
	}
	return fmt.Sprintf("%s: %v", name, err)
}
