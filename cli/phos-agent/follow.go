package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/cluster/agent"
	"github.com/phos-gpu/phos/cluster/agent/link"
	"github.com/phos-gpu/phos/cluster/identity/renewal"
	"github.com/phos-gpu/phos/cluster/metrics"
	daemonapi "github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/scrape"
)

// follow serves the cluster until the context ends.
func (o *options) follow(ctx context.Context, ready *readiness.Pipe, log *slog.Logger) error {
	m, err := o.load()
	if err != nil {
		return err
	}
	holder, err := m.holder()
	if err != nil {
		return err
	}
	if o.address == "" {
		if o.address, err = addressTo(m.Controllers); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var variables []string
	if library, err := launch.FindLibrary(self); err == nil {
		variables = library.Environment(nil)
	} else {
		log.Warn("launches run without phos", "error", err)
	}
	running, err := agent.New(ctx, agent.Config{
		Node: m.Node, Address: o.address, StateDir: o.stateDir, Contact: link.Contact{
			Controllers: m.Controllers, Dial: link.Dialer(holder), SaveControllers: o.saveControllers,
			Certificate: renewal.New(holder, o.keep, time.Now), Log: log,
		},
		Phosd: o.phosd, Environment: variables, Images: o.images, Peers: holder, Socket: o.socket, AllowRoot: o.allowRoot, Version: daemonapi.Version,
	})
	if err != nil {
		return err
	}
	end, err := scrape.Serve(o.metrics, metrics.NewAgent(daemonapi.Version, running.Numbers).Registry())
	if err != nil {
		log.Warn("no metrics are served", "error", err) // launches run without them
	} else {
		defer func() { _ = end() }()
	}
	supervisor := readiness.FindSupervisor(log)
	ready.Say("ready\t%s\t%s", m.Node, m.Cluster)
	supervisor.Ready("node " + m.Node + " of cluster " + m.Cluster)
	log.Info("agent ready", "node", m.Node, "cluster", m.Cluster, "address", o.address)
	err = running.Run(ctx)
	supervisor.Stopping("stopping; launches go on")
	return err
}

// addressTo returns the address that this machine has on the way to the controllers.
func addressTo(controllers []string) (string, error) {
	var last error
	for _, address := range controllers {
		conn, err := net.Dial("udp", address) // sends nothing
		if err != nil {
			last = err
			continue
		}
		defer conn.Close()
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		return host, err
	}
	return "", fmt.Errorf("address of this node: %w; name it with --address", last)
}
