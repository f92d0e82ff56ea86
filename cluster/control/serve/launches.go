package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// launches is the service for people's launches.
type launches struct {
	api.UnimplementedLaunchesServer
	front
	code *code.Copies
	logs *logs.Store
}

// Create checks a launch and queues it.
func (s *launches) Create(ctx context.Context, request *api.CreateRequest) (*api.CreateReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.room(); err != nil {
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
	submitted := control.Submission{
		Spec: spec, Owner: owner, By: caller.Name, Script: request.GetScript(), Request: request.GetRequest(),
	}
	if ref := request.GetCode(); ref != nil {
		if err := s.fetchCode(ctx, ref); err != nil {
			return nil, err
		}
		submitted.Code = codeOf(ref)
	}
	if len(submitted.Script) > launch.MaxBytes/4 {
		return nil, api.Invalid(fmt.Sprintf("the script has %d bytes; at most %d are kept", len(submitted.Script), launch.MaxBytes/4))
	}
	return create(ctx, leader, submitted, request.GetDryRun())
}

// fetchCode gets the code of a launch from another controller if this one lacks it: it may lead
// since the code was sent.
func (s *launches) fetchCode(ctx context.Context, ref *api.CodeRef) error {
	err := s.code.Fetch(ctx, ref)
	if errors.Is(err, api.ErrNotFound) {
		return api.Invalid("the code of the launch was not sent, or has been removed since")
	}
	return err
}

// create makes the turn of Create.
func create(ctx context.Context, leader *control.Leader, s control.Submission, dry bool) (*api.CreateReply, error) {
	reply := &api.CreateReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		if !t.HasNodes() {
			reply.Notices = append(reply.Notices, "no node has joined yet: the launch waits for one")
		}
		if dry {
			return t.Feasible(s)
		}
		created, err := t.Create(s)
		reply.Launches = launchViews(created)
		return err
	})
}

// visible returns the launch that a request names, if the caller may see it.
func visible(t control.Turn, caller identity.Caller, id string) (*record.Launch, error) {
	l := t.Find(id)
	if l == nil || !maySee(caller, l.Owner) {
		return nil, fmt.Errorf("%w: %.100q", control.ErrNoLaunch, id)
	}
	return l, nil
}

// act applies what a user asks for to a launch.
func (s *launches) act(ctx context.Context, id string, event func(by string) launch.Event) (*api.ActReply, error) {
	return s.change(ctx, id, func(t control.Turn, l *record.Launch, by string) error { return t.Act(l, event(by)) })
}

// change does what a user asks for to a launch.
func (s *launches) change(
	ctx context.Context, id string, do func(t control.Turn, l *record.Launch, by string) error,
) (*api.ActReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ActReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, id)
		if err != nil {
			return err
		}
		if err := mayChange(caller, l.Owner); err != nil {
			return err
		}
		if err := do(t, l, caller.Name); err != nil {
			return err
		}
		reply.Launch = launchView(l)
		return nil
	})
}

// Checkpoint has a launch saved that runs on.
func (s *launches) Checkpoint(ctx context.Context, request *api.ActRequest) (*api.ActReply, error) {
	return s.change(ctx, request.GetId(), control.Turn.Checkpoint)
}

// Migrate moves a launch to another node while it runs.
func (s *launches) Migrate(ctx context.Context, request *api.MigrateRequest) (*api.ActReply, error) {
	return s.change(ctx, request.GetId(), func(t control.Turn, l *record.Launch, by string) error {
		return t.Migrate(l, request.GetTo(), by)
	})
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
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, request.GetId())
		if err != nil {
			return err
		}
		if l.State.Phase != launch.Ended {
			return fmt.Errorf("%w: launch %s is %s; stop it first", launch.ErrRefused, l.Label(), l.State.Phase)
		}
		created, err := t.Create(control.Submission{
			Spec: l.State.Spec, Owner: owner, By: caller.Name, Code: l.Code, Script: l.Script,
		})
		reply.Launches = launchViews(created)
		return err
	})
}

// Why says why a launch waits.
func (s *launches) Why(ctx context.Context, request *api.GetRequest) (*api.WhyReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.WhyReply{}
	var ask func(context.Context, *api.WhyReply) error
	err = leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, request.GetId())
		if err != nil {
			return err
		}
		reply.Launch = launchView(l)
		reply.Reasons, ask = t.Reasons(l)
		return nil
	})
	if err != nil || ask == nil {
		return reply, err
	}
	return reply, ask(ctx, reply)
}
