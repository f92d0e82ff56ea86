package main

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/members"
	"github.com/phos-gpu/phos/cluster/metrics"
	daemonapi "github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/scrape"
)

// itself is the controller as the caller of its own services, which sees everything.
type itself struct{}

// Of implements Callers of cluster/control/serve.
func (itself) Of(context.Context) (identity.Caller, error) {
	return identity.Caller{Kind: identity.Controller, Name: "metrics"}, nil
}

// newNumbers returns the numbers of this controller. source is called once it serves.
func newNumbers(k *controller) *metrics.Controller {
	return metrics.NewController(daemonapi.Version, func(ctx context.Context) (*api.StatusReply, error) {
		return k.glance(ctx)
	})
}

// glanceAt returns what asks the leader of this process for the cluster at a glance.
func glanceAt(leading *control.Controller, all *members.Members) metrics.Source {
	services := serve.New(leading, serve.Parts{Callers: itself{}, People: all, Controllers: all})
	return func(ctx context.Context) (*api.StatusReply, error) {
		return services.Cluster.Status(ctx, &api.StatusRequest{})
	}
}

// serveNumbers serves the numbers until the returned function is called. A cluster works without.
func (k *controller) serveNumbers() (end func()) {
	stop, err := scrape.Serve(k.config.Metrics.Listen, k.numbers.Registry())
	if err != nil {
		k.log.Warn("no metrics are served", "error", err)
		return func() {}
	}
	return func() { _ = stop() }
}
