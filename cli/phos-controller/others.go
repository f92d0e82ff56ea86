package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/clusterfudge"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/members"
)

// serveOthers serves clients that do not speak phos's own gRPC: JSON on the same addresses, and the
// client of Clusterfudge on one of its own.
func (k *controller) serveOthers(fail context.CancelCauseFunc) error {
	go func() {
		if err := k.gateway.Serve(); err != nil {
			fail(fmt.Errorf("serve JSON: %w", err))
		}
	}()
	address := k.config.Clusterfudge.Listen
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("clusterfudge.listen: %w; choose another address, or leave it empty", err)
	}
	if err := local.CheckListener(listener); err != nil {
		return fmt.Errorf("clusterfudge.listen: %w", err)
	}
	creds := grpc.Creds(members.LocalCredentials(local.Rules{AllowRoot: true}))
	server := grpc.NewServer(append(clusterfudge.ServerOptions(), creds)...)
	clusterfudge.NewService(k.inner).Register(server)
	k.serve(server, listener, fail)
	return nil
}
