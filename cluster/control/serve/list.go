package serve

import (
	"context"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// wanted returns which launches a request asks for.
func wanted(t control.Turn, caller identity.Caller, request *api.ListRequest) func(*record.Launch) bool {
	only := map[string]bool{}
	for _, id := range request.GetIds() {
		if l := t.Find(id); l != nil {
			only[l.ID] = true
		}
	}
	named := len(request.GetIds()) > 0
	return func(l *record.Launch) bool {
		return maySee(caller, l.Owner) && (request.GetOwner() == "" || l.Owner == request.GetOwner()) &&
			(request.GetEnded() || named || l.State.Phase != launch.Ended) &&
			(!named || only[l.ID]) && onPage(l, request)
	}
}

// onPage reports whether a launch has the number and phase that a request asks for.
func onPage(l *record.Launch, request *api.ListRequest) bool {
	return (request.GetBefore() == 0 || l.Number < int(request.GetBefore())) &&
		(request.After == nil || l.Number > int(request.GetAfter())) &&
		(len(request.GetPhases()) == 0 || slices.Contains(request.GetPhases(), string(l.State.Phase)))
}

// list returns those launches that a request asks for, in its order.
func list(t control.Turn, wants func(*record.Launch) bool, request *api.ListRequest) []*api.Launch {
	var found []*record.Launch
	for l := range t.Launches() {
		if wants(l) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *record.Launch) int { return b.Number - a.Number })
	if request.After != nil {
		slices.Reverse(found)
	}
	if limit := int(request.GetLimit()); limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	views := launchViews(found)
	for i, l := range found {
		if request.GetHistory() {
			views[i].History = historyView(l)
		}
	}
	return views
}

// List returns launches, the newest first.
func (s *launches) List(ctx context.Context, request *api.ListRequest) (*api.ListReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		reply.Launches = list(t, wanted(t, caller, request), request)
		return nil
	})
}

// Get returns one launch with its description.
func (s *launches) Get(ctx context.Context, request *api.GetRequest) (*api.GetReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.GetReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, request.GetId())
		if err != nil {
			return err
		}
		reply.Launch, reply.Script = launchView(l), l.Script
		for i := range l.Images {
			if l.Superseded(&l.Images[i]) {
				continue
			}
			shown := order.ImageView(&l.Images[i])
			shown.Current = l.State.Cut[l.Images[i].Replica] == l.Images[i].Name()
			shown.Risk = t.Risk(&l.Images[i])
			reply.Launch.Images = append(reply.Launch.Images, shown)
		}
		reply.Spec, err = l.State.Spec.JSON()
		return err
	})
}

// Watch sends launches as they are, then each again when it has changed.
func (s *launches) Watch(request *api.ListRequest, stream api.Launches_WatchServer) error {
	ctx := stream.Context()
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return err
	}
	var first []*api.Launch
	w, err := watch(ctx, leader, func(t control.Turn) (wants[*api.Launch], error) {
		listed := wanted(t, caller, request)
		first = list(t, listed, request)
		return wants[*api.Launch]{launch: func(l *record.Launch) (*api.Launch, bool) {
			if !maySee(caller, l.Owner) || !listed(l) && !hasEnded(l) {
				return nil, false
			}
			return launchView(l), true
		}}, nil
	})
	if err != nil {
		return err
	}
	defer leader.Unwatch(w)
	if err := stream.Send(&api.WatchReply{Launches: first, Complete: true}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ready:
		}
		changed, err := w.take()
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			continue // it was taken with the change before
		}
		if err := stream.Send(&api.WatchReply{Launches: changed}); err != nil {
			return err
		}
	}
}

// hasEnded reports whether a launch has ended: a watcher that has seen it is told that.
func hasEnded(l *record.Launch) bool { return l.State.Phase == launch.Ended }
