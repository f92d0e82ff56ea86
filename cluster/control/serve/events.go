package serve

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
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
	f := &eventFollower{caller: caller, request: request, sent: map[string]int{}}
	var events []*api.Event
	w, err := watch(ctx, leader, func(t control.Turn) (_ func(*record.Launch) bool, err error) {
		events, err = f.fresh(t)
		return f.mayWant, err
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
		if _, err := w.take(); err != nil {
			return err
		}
		if err := leader.Ask(ctx, func(t control.Turn) error {
			events, err = f.fresh(t)
			return err
		}); err != nil {
			return err
		}
	}
}

// eventFollower sends each event once.
type eventFollower struct {
	caller  identity.Caller
	request *api.EventsRequest
	// sent has the number of the last event that was sent of each launch and node.
	sent map[string]int
	// begun means that the events from before the request have been sent.
	begun bool
}

// mayWant reports whether a launch may be one that is asked for.
func (f *eventFollower) mayWant(l *record.Launch) bool {
	return maySee(f.caller, l.Owner) && f.request.GetNode() == ""
}

// fresh returns the events that were not sent yet.
func (f *eventFollower) fresh(t control.Turn) (found []*api.Event, err error) {
	if id := f.request.GetLaunch(); id != "" {
		l, err := visible(t, f.caller, id)
		if err != nil {
			return nil, err
		}
		if f.mayWant(l) {
			found = f.take("launch "+l.ID, l.Events, l.ID, "")
		}
	} else {
		for l := range t.Launches() {
			if f.mayWant(l) {
				found = append(found, f.take("launch "+l.ID, l.Events, l.ID, "")...)
			}
		}
		nodes, err := f.nodes(t)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			found = append(found, f.take("node "+n.Name, n.Events, "", n.Name)...)
		}
	}
	slices.SortStableFunc(found, func(a, b *api.Event) int { return int(a.GetUnixMs() - b.GetUnixMs()) })
	if tail := int(f.request.GetTail()); tail > 0 && !f.begun {
		found = found[max(0, len(found)-tail):]
	}
	f.begun = true
	return found, nil
}

// nodes returns the nodes that are asked for.
func (f *eventFollower) nodes(t control.Turn) ([]control.NodeNow, error) {
	name := f.request.GetNode()
	if name == "" {
		return t.Nodes(), nil
	}
	n, err := t.Node(name)
	return []control.NodeNow{n}, err
}

// take returns the events of a list that are newer than the last one sent.
func (f *eventFollower) take(key string, events []record.Event, launchID, node string) (fresh []*api.Event) {
	for _, each := range events {
		if each.Number > f.sent[key] {
			f.sent[key] = each.Number
			if each.At.UnixMilli() >= f.request.GetSinceUnixMs() {
				fresh = append(fresh, eventView(each, launchID, node))
			}
		}
	}
	return fresh
}
