package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
)

// launches is the service for people's launches.
type launches struct {
	api.UnimplementedLaunchesServer
	*Controller
	callers Callers
	code    *CodeStore
}

// asked returns the caller, and the leader.
func (s *launches) asked(ctx context.Context) (identity.Caller, *Leader, error) {
	caller, err := s.callers.Of(ctx)
	if err != nil {
		return identity.Caller{}, nil, err
	}
	leader, err := s.leading(ctx)
	return caller, leader, err
}

// Create checks a launch and queues it.
func (s *launches) Create(ctx context.Context, request *api.CreateRequest) (*api.CreateReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := launchAccount(caller)
	if err != nil {
		return nil, err
	}
	spec, err := launch.ReadJSON(request.GetSpec())
	if err != nil {
		return nil, err
	}
	if spec, err = spec.Check(); err != nil {
		return nil, err
	}
	submitted := submission{spec: spec, owner: owner, by: caller.Name, script: request.GetScript(), request: request.GetRequest()}
	if ref := request.GetCode(); ref != nil {
		if !s.code.has(ref) {
			return nil, api.Invalid("the code of the launch was not sent, or has been removed since")
		}
		submitted.code = codeOf(ref)
	}
	if len(submitted.script) > launch.MaxBytes/4 {
		return nil, api.Invalid(fmt.Sprintf("the script has %d bytes; at most %d are kept", len(submitted.script), launch.MaxBytes/4))
	}
	return leader.createFor(ctx, submitted, request.GetDryRun())
}

// createFor makes the turn of Create.
func (l *Leader) createFor(ctx context.Context, s submission, dry bool) (*api.CreateReply, error) {
	reply := &api.CreateReply{}
	err := l.ask(ctx, func() error {
		if len(l.nodes) == 0 {
			reply.Notices = append(reply.Notices, "no node has joined yet: the launch waits for one")
		}
		if dry {
			return l.feasible(s.spec)
		}
		created, err := l.create(s)
		for _, e := range created {
			reply.Launches = append(reply.Launches, l.view(e))
		}
		return err
	})
	return reply, err
}

// visible returns the launch that a request names, if the caller may see it.
func (l *Leader) visible(caller identity.Caller, id string) (*entry, error) {
	e := l.find(id)
	if e == nil || !maySee(caller, e.Owner) {
		return nil, fmt.Errorf("%w: %.100q", ErrNoLaunch, id)
	}
	return e, nil
}

// wanted returns which launches a request asks for.
func (l *Leader) wanted(caller identity.Caller, request *api.ListRequest) func(*entry) bool {
	var only []*entry
	for _, id := range request.GetIds() {
		only = append(only, l.find(id))
	}
	return func(e *entry) bool {
		return maySee(caller, e.Owner) && (request.GetOwner() == "" || e.Owner == request.GetOwner()) &&
			(request.GetEnded() || len(only) > 0 || e.State.Phase != launch.Ended) &&
			(len(only) == 0 || slices.Contains(only, e))
	}
}

// list returns the launches that a request asks for, the newest first.
func (l *Leader) list(wants func(*entry) bool, limit int) (found []*api.Launch) {
	var entries []*entry
	for _, e := range l.launches {
		if wants(e) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return b.Number - a.Number })
	if limit > 0 && len(entries) > limit {
		entries = entries[:limit]
	}
	for _, e := range entries {
		found = append(found, l.view(e))
	}
	return found
}

// List returns launches, the newest first.
func (s *launches) List(ctx context.Context, request *api.ListRequest) (reply *api.ListReply, err error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply = &api.ListReply{}
	return reply, leader.ask(ctx, func() error {
		reply.Launches = leader.list(leader.wanted(caller, request), int(request.GetLimit()))
		return nil
	})
}

// Get returns one launch with its description.
func (s *launches) Get(ctx context.Context, request *api.GetRequest) (reply *api.GetReply, err error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply = &api.GetReply{}
	return reply, leader.ask(ctx, func() error {
		e, err := leader.visible(caller, request.GetId())
		if err != nil {
			return err
		}
		reply.Launch, reply.Script = leader.view(e), e.Script
		reply.Spec, err = e.State.Spec.JSON()
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
	var w *watcher
	var first []*api.Launch
	err = leader.ask(ctx, func() error {
		wants := leader.wanted(caller, request)
		w = newWatcher(leader, func(e *entry) bool { return maySee(caller, e.Owner) && (wants(e) || e.justEnded()) })
		leader.watchers[w] = struct{}{}
		first = leader.list(wants, int(request.GetLimit()))
		return nil
	})
	if err != nil {
		return err
	}
	defer leader.turns.add(func() { delete(leader.watchers, w) })
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
			continue
		}
		if err := stream.Send(&api.WatchReply{Launches: changed}); err != nil {
			return err
		}
	}
}

// justEnded reports whether a launch has ended: a watcher that has seen it is told that.
func (e *entry) justEnded() bool { return e.State.Phase == launch.Ended }

// act applies what a user asks for to a launch.
func (s *launches) act(ctx context.Context, id string, event func(by string) launch.Event) (*api.ActReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ActReply{}
	return reply, leader.ask(ctx, func() error {
		e, err := leader.visible(caller, id)
		if err != nil {
			return err
		}
		if err := mayChange(caller, e.Owner); err != nil {
			return err
		}
		if err := leader.giveWayOr(e, event(caller.Name)); err != nil {
			return err
		}
		reply.Launch = leader.view(e)
		return nil
	})
}

// giveWayOr applies an event that a user asks for. A suspended launch gives its places back.
func (l *Leader) giveWayOr(e *entry, event launch.Event) error {
	if _, suspends := event.(launch.SuspendRequested); suspends {
		return l.giveWay(e, event)
	}
	return l.apply(e, event)
}

// Stop ends a launch.
func (s *launches) Stop(ctx context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(ctx, request.GetId(), func(by string) launch.Event { return launch.StopRequested{By: by} })
}

// Suspend saves a launch, and gives its places back until it is resumed.
func (s *launches) Suspend(ctx context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(ctx, request.GetId(), func(by string) launch.Event { return launch.SuspendRequested{By: by} })
}

// Resume queues a suspended launch.
func (s *launches) Resume(ctx context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.act(ctx, request.GetId(), func(by string) launch.Event { return launch.ResumeRequested{By: by} })
}

// Rerun creates a new launch with the description of an ended one.
func (s *launches) Rerun(ctx context.Context, request *api.ActRequest) (*api.CreateReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := launchAccount(caller)
	if err != nil {
		return nil, err
	}
	reply := &api.CreateReply{}
	return reply, leader.ask(ctx, func() error {
		e, err := leader.visible(caller, request.GetId())
		if err != nil {
			return err
		}
		if e.State.Phase != launch.Ended {
			return fmt.Errorf("%w: launch %s is %s; stop it first", launch.ErrRefused, e.Label(), e.State.Phase)
		}
		created, err := leader.create(submission{
			spec: e.State.Spec, owner: owner, by: caller.Name, code: e.Code, script: e.Script,
		})
		for _, each := range created {
			reply.Launches = append(reply.Launches, leader.view(each))
		}
		return err
	})
}
