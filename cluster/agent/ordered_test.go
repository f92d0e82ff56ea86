package agent

import (
	"context"
	"testing"

	"github.com/phos-gpu/phos/cluster/agent/images"
	"github.com/phos-gpu/phos/cluster/agent/localapi"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
)

// TestOrderedAgain: an attempt whose preparation ends with its stream goes on with the order of the
// next stream, which may have come before that end.
func TestOrderedAgain(t *testing.T) {
	a := &Agent{
		config: Config{StateDir: t.TempDir()}, generations: localapi.NewGenerations(), trainings: localapi.NewTrainings(),
	}
	a.attempts, a.copier = newAttempts(a), images.NewCopier(nil, nil)
	key := supervisor.Key{Launch: "l-one", Attempt: 1}
	for _, lives := range []bool{true, false} {
		at := newAttempt(a.attempts, key)
		a.attempts.all[key] = at
		ctx, stop := context.WithCancel(t.Context())
		orders := &api.Orders{Orders: []*api.Order{{
			Attempt: &api.Attempt{Launch: key.Launch, Attempt: uint32(key.Attempt)}, Do: "run", Owner: "ada",
		}}}
		if err := a.attempts.follow(ctx, nil, orders); err != nil {
			t.Fatal(err)
		}
		if !lives {
			stop()
		}
		next := a.attempts.goneOrOrdered(at)
		if (next != nil) != lives || (a.attempts.find(key) != nil) != lives {
			t.Errorf("the stream lives %v: ordered again %v, there %v", lives, next, a.attempts.find(key))
		}
		if next != nil && (next.ctx != ctx || next.order.GetOwner() != "ada") {
			t.Errorf("got %+v", next)
		}
		stop()
	}
}
