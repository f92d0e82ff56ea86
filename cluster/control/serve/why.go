package serve

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
)

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
