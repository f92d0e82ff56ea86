package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
)

// selection is which processes of a launch a request is about: ID[/job[.replica[.process]]].
type selection struct {
	id, job          string
	replica, process int // -1: all
}

// parseSelection reads ID[/job[.replica[.process]]].
func parseSelection(text string) (selection, error) {
	s := selection{replica: -1, process: -1}
	id, rest, _ := strings.Cut(text, "/")
	s.id = id
	if rest == "" {
		return s, nil
	}
	words := strings.Split(rest, ".")
	s.job = words[0]
	for i, into := range []*int{&s.replica, &s.process} {
		if len(words) <= i+1 {
			break
		}
		number, err := strconv.Atoi(words[i+1])
		if err != nil || number < 0 {
			return s, api.Invalid(fmt.Sprintf("%.100q: want ID, ID/job, ID/job.replica or ID/job.replica.process", text))
		}
		*into = number
	}
	if len(words) > 3 {
		return s, api.Invalid(fmt.Sprintf("%.100q: want ID, ID/job, ID/job.replica or ID/job.replica.process", text))
	}
	return s, nil
}

// source is an attempt whose log is wanted, with the node that has it.
type source struct {
	job     string
	index   int
	replica int
	attempt int
	node    string
	live    bool
	process int
	launch  string
}

// sources returns the attempts that a request is about.
func (l *Leader) sources(e *entry, s selection, attempt int) (found []source, err error) {
	jobs := 0
	for i := range e.State.Replicas {
		r := &e.State.Replicas[i]
		job := e.State.Spec.Jobs[r.Job].Name
		if s.job != "" && s.job != job || s.replica >= 0 && s.replica != r.Index {
			continue
		}
		jobs++
		if s.process >= len(e.State.Spec.Jobs[r.Job].Processes) {
			return nil, fmt.Errorf("%w: job %s has %d processes", api.ErrNotFound, job, len(e.State.Spec.Jobs[r.Job].Processes))
		}
		if at, ok := attemptOf(e, i, attempt); ok {
			at.job, at.index, at.process, at.launch = job, r.Index, s.process, e.ID
			found = append(found, at)
		}
	}
	if jobs == 0 {
		return nil, fmt.Errorf("%w: launch %s has no replica %s.%d", api.ErrNotFound, e.Label(), s.job, s.replica)
	}
	return found, nil
}

// attemptOf returns where an attempt of a replica ran; 0 is the last one.
func attemptOf(e *entry, replica, attempt int) (source, bool) {
	r := &e.State.Replicas[replica]
	if attempt == 0 {
		attempt = r.Attempt
	}
	for _, span := range slices.Backward(e.Spans) {
		if span.Replica == replica && span.Attempt == attempt {
			return source{replica: replica, attempt: attempt, node: span.Node, live: r.Live && r.Attempt == attempt}, true
		}
	}
	return source{}, false
}

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
	f := &logFollower{leader: leader, request: request, what: what, caller: caller, send: stream.Send, seen: map[[2]int]bool{}}
	return f.run(ctx)
}

// logFollower merges the logs of the attempts of a launch.
type logFollower struct {
	leader  *Leader
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
	var w *watcher
	err := f.leader.ask(ctx, func() error {
		e, err := f.leader.visible(f.caller, f.what.id)
		if err != nil {
			return err
		}
		w = newWatcher(f.leader, func(other *entry) bool { return other == e })
		f.leader.watchers[w] = struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	defer f.leader.turns.add(func() { delete(f.leader.watchers, w) })
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
	err = f.leader.ask(ctx, func() error {
		e, err := f.leader.visible(f.caller, f.what.id)
		if err != nil {
			return err
		}
		ended = e.State.Phase == launch.Ended
		all, err := f.leader.sources(e, f.what, int(f.request.GetAttempt()))
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

// ask asks a node for the log of an attempt.
func (f *logFollower) ask(ctx context.Context, at source) *logStream {
	s := &logStream{source: at}
	s.question, s.err = f.leader.askNode(ctx, at.node, &api.Ask{Logs: &api.LogQuestion{
		Attempt: &api.Attempt{Launch: at.launch, Replica: uint32(at.replica), Attempt: uint32(at.attempt)},
		Process: int32(at.process), Follow: f.request.GetFollow() && at.live, Tail: f.request.GetTail(),
		SinceUnixNs: f.request.GetSinceUnixNs(),
	}})
	return s
}

// notice says what is missing of an attempt's log.
func (s *logStream) notice(err error) string {
	name := fmt.Sprintf("%s.%d (attempt %d) on %s", s.source.job, s.source.index, s.source.attempt, s.source.node)
	if errors.Is(err, ErrNodeSilent) {
		return name + ": the node does not answer now, so its log is missing here"
	}
	return fmt.Sprintf("%s: %v", name, err)
}
