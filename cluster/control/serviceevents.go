package control

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
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
		return api.Invalid("the scheduler's log of events is not kept by this version")
	}
	f := &eventFollower{leader: leader, caller: caller, request: request, sent: map[string]int{}}
	w := newWatcher(leader, func(e *entry) bool { return f.wants(e) })
	for {
		var events []*api.Event
		err := leader.ask(ctx, func() (err error) {
			leader.watchers[w] = struct{}{}
			events, err = f.fresh()
			return err
		})
		if err != nil {
			return err
		}
		for _, event := range events {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		if !request.GetFollow() {
			leader.turns.add(func() { delete(leader.watchers, w) })
			return nil
		}
		select {
		case <-ctx.Done():
			leader.turns.add(func() { delete(leader.watchers, w) })
			return ctx.Err()
		case <-w.ready:
		}
		if _, err := w.take(); err != nil {
			return err
		}
	}
}

// eventFollower sends each event once.
type eventFollower struct {
	leader  *Leader
	caller  identity.Caller
	request *api.EventsRequest
	// sent has the number of the last event that was sent of each launch and node.
	sent map[string]int
}

// wants reports whether a launch's events are asked for.
func (f *eventFollower) wants(e *entry) bool {
	return maySee(f.caller, e.Owner) && f.request.GetNode() == "" &&
		(f.request.GetLaunch() == "" || f.leader.find(f.request.GetLaunch()) == e)
}

// fresh returns the events that were not sent yet.
func (f *eventFollower) fresh() (found []*api.Event, err error) {
	if id := f.request.GetLaunch(); id != "" {
		if _, err := f.leader.visible(f.caller, id); err != nil {
			return nil, err
		}
	}
	for _, e := range f.leader.launches {
		if f.wants(e) {
			found = append(found, f.take("launch "+e.ID, e.Events, e.ID, "")...)
		}
	}
	if f.request.GetLaunch() == "" {
		for _, n := range f.leader.nodes {
			if f.request.GetNode() == "" || f.request.GetNode() == n.Name {
				found = append(found, f.take("node "+n.Name, n.Events, "", n.Name)...)
			}
		}
		if name := f.request.GetNode(); name != "" && f.leader.nodes[name] == nil {
			return nil, fmt.Errorf("%w: node %.100q", api.ErrNotFound, name)
		}
	}
	slices.SortStableFunc(found, func(a, b *api.Event) int { return int(a.GetUnixMs() - b.GetUnixMs()) })
	return found, nil
}

// take returns the events of a list that are newer than the last one sent.
func (f *eventFollower) take(key string, events []record.Event, launchID, node string) (fresh []*api.Event) {
	for _, each := range events {
		if each.Number > f.sent[key] {
			f.sent[key] = each.Number
			fresh = append(fresh, &api.Event{
				UnixMs: each.At.UnixMilli(), Launch: launchID, Node: node, Kind: each.Kind, Text: each.Text,
				Epoch: uint64(each.Epoch),
			})
		}
	}
	return fresh
}
