package main

import (
	"context"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

// openCode opens the code that launches have been sent with, here and on the other controllers.
func (k *controller) openCode(holder *channel.Holder) (*code.Copies, error) {
	kept, err := codestore.NewStore(filepath.Join(k.config.Controller.StateDir, "code"))
	return &code.Copies{Store: kept, Others: k.others, Dial: func(address string) (*grpc.ClientConn, error) {
		tls := credentials.NewTLS(channel.Client(holder, time.Now))
		return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(tls))
	}}, err
}

// others returns where the other controllers are reached.
func (k *controller) others(ctx context.Context) (addresses []string, err error) {
	all, err := k.members.Controllers(ctx)
	for _, each := range all {
		if each.Name != k.name {
			addresses = append(addresses, each.Address)
		}
	}
	return addresses, err
}
