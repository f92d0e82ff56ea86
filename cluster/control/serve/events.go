package serve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/decisions"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/record"
)

// Events sends what has happened to launches and nodes, in the order of time.
func (s *launches) Events(request *api.EventsRequest, stream api.Launches_EventsServer) error {
	ctx := stream.Context()
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return err
	}
	if request.GetAsLog() {
		return s.sendLog(caller, request, stream)
	}
	f := &eventFollower{caller: caller, request: request, sent: map[eventSource]int{}}
	var events []*api.Event
	w, err := watch(ctx, leader, func(t control.Turn) (_ wants[eventSource], err error) {
		events, err = f.first(t)
		return f.wants(), err
	})
	if err != nil {
		return err
	}
	defer leader.Unwatch(w)
	for {
		for _, event := range events {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		if !request.GetFollow() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ready:
		}
		changed, err := w.take()
		if err != nil {
			return err
		}
		if err := leader.Ask(ctx, func(t control.Turn) error {
			events = f.fresh(t, changed)
			return nil
		}); err != nil {
			return err
		}
	}
}

// eventSource names a launch or a node, whose events are asked for.
type eventSource struct{ launch, node string }

// eventFollower sends each event once.
type eventFollower struct {
	caller  identity.Caller
	request *api.EventsRequest
	// launch is the id of the only launch that is asked for; empty: the request names none.
	launch string
	// sent has the number of the last event that was sent.
	sent map[eventSource]int
}

// wantsLaunch reports whether the events of a launch are asked for.
func (f *eventFollower) wantsLaunch(l *record.Launch) bool {
	return maySee(f.caller, l.Owner) && f.request.GetNode() == "" && (f.launch == "" || f.launch == l.ID)
}

// wantsNode reports whether the events of a node are asked for.
func (f *eventFollower) wantsNode(name string) bool {
	return f.launch == "" && (f.request.GetNode() == "" || f.request.GetNode() == name)
}

// wants returns what is looked at again when it has changed.
func (f *eventFollower) wants() wants[eventSource] {
	return wants[eventSource]{
		launch: func(l *record.Launch) (eventSource, bool) { return eventSource{launch: l.ID}, f.wantsLaunch(l) },
		node:   func(n *record.Node) (eventSource, bool) { return eventSource{node: n.Name}, f.wantsNode(n.Name) },
	}
}

// first returns the events that there are, of all that is asked for: only the last ones if the
// request says so.
func (f *eventFollower) first(t control.Turn) ([]*api.Event, error) {
	var all []eventSource
	if id := f.request.GetLaunch(); id != "" {
		l, err := visible(t, f.caller, id)
		if err != nil {
			return nil, err
		}
		f.launch = l.ID
	}
	for l := range t.Launches() {
		if f.wantsLaunch(l) {
			all = append(all, eventSource{launch: l.ID})
		}
	}
	if name := f.request.GetNode(); name != "" && f.launch == "" {
		if _, err := t.Node(name); err != nil {
			return nil, err
		}
	}
	for _, n := range t.Nodes() {
		if f.wantsNode(n.Name) {
			all = append(all, eventSource{node: n.Name})
		}
	}
	found := f.fresh(t, all)
	if tail := int(f.request.GetTail()); tail > 0 {
		found = found[max(0, len(found)-tail):]
	}
	return found, nil
}

// fresh returns the events of some launches and nodes that were not sent yet. What has been removed
// since it changed has none.
func (f *eventFollower) fresh(t control.Turn, of []eventSource) (found []*api.Event) {
	for _, source := range of {
		if source.launch != "" {
			if l := t.Find(source.launch); l != nil {
				found = append(found, f.take(source, l.Events)...)
			}
		} else if n, err := t.Node(source.node); err == nil {
			found = append(found, f.take(source, n.Events)...)
		}
	}
	slices.SortStableFunc(found, func(a, b *api.Event) int { return cmp.Compare(a.GetUnixMs(), b.GetUnixMs()) })
	return found
}

// take returns the events of a list that are newer than the last one sent.
func (f *eventFollower) take(from eventSource, events []record.Event) (fresh []*api.Event) {
	for _, each := range events {
		if each.Number > f.sent[from] {
			f.sent[from] = each.Number
			if each.At.UnixMilli() >= f.request.GetSinceUnixMs() {
				fresh = append(fresh, eventView(each, from.launch, from.node))
			}
		}
	}
	return fresh
}

// sendLog sends the scheduler's log of this leadership. It names the launches of all users.
func (s *launches) sendLog(
	caller identity.Caller, request *api.EventsRequest, stream api.Launches_EventsServer,
) error {
	switch {
	case !maySee(caller, ""):
		return fmt.Errorf("%w: the log has the launches of all users, and this is %s", api.ErrNotPermitted, caller)
	case request.GetFollow() || request.GetLaunch() != "" || request.GetNode() != "":
		return api.Invalid("the scheduler's log is that of all launches and nodes, and ends now")
	}
	err := decisions.Read(s.Settings().Decisions, func(line string) error {
		return stream.Send(&api.Event{Text: line})
	})
	if errors.Is(err, decisions.ErrNone) {
		return fmt.Errorf("%w: this controller keeps none", err)
	}
	return err
}
