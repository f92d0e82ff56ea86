package control

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Why says why a launch waits.
func (s *launches) Why(ctx context.Context, request *api.GetRequest) (*api.WhyReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.WhyReply{}
	var ask *part
	err = leader.ask(ctx, func() error {
		e, err := leader.visible(caller, request.GetId())
		if err != nil {
			return err
		}
		reply.Launch = leader.view(e)
		reply.Reasons = leader.reasons(e)
		for _, p := range e.parts {
			if p.assigned == nil {
				ask = p
				reply.Reasons = append(reply.Reasons, leader.blockers(p)...)
			}
		}
		return nil
	})
	if err != nil || ask == nil {
		return reply, err
	}
	return reply, ask.queue.explain(ctx, ask.id, reply)
}

// reasons says what the leader itself knows of why a launch waits.
func (l *Leader) reasons(e *entry) (reasons []string) {
	switch e.State.Phase {
	case launch.Waiting:
		for _, id := range e.State.Spec.After {
			if other := l.launches[id]; other != nil && other.State.Phase != launch.Ended {
				reasons = append(reasons, fmt.Sprintf("it comes after launch %s, which is %s", other.Label(), other.State.Phase))
			}
		}
	case launch.Queued, launch.Running:
		reasons = append(reasons, l.startingReasons(e)...)
	case launch.Stopping:
		reasons = append(reasons, "its processes are being stopped: "+e.State.Reason)
	case launch.Suspended:
		reasons = append(reasons, e.State.Reason+"; phos resume "+e.Label()+" queues it")
	case launch.Ended:
		reasons = append(reasons, phaseText(&e.State))
	}
	return reasons
}

// startingReasons says what holds up replicas that have a place.
func (l *Leader) startingReasons(e *entry) (reasons []string) {
	for _, p := range e.parts {
		if p.starting {
			reasons = append(reasons, "its place is known and becomes free when the launch that has it has stopped")
		}
	}
	for i := range e.State.Replicas {
		if r := &e.State.Replicas[i]; r.Live && !r.Started {
			text := e.preparing[i]
			if text == "" {
				text = "starting"
			}
			reasons = append(reasons, fmt.Sprintf("%s on %s: %s", replicaName(&e.Launch, i), r.Node, text))
		}
	}
	if len(reasons) == 0 && e.State.Phase == launch.Running {
		reasons = append(reasons, "it runs")
	}
	return reasons
}
