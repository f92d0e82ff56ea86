package hollow

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cluster/agent/link"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/renewal"
	"github.com/phos-gpu/phos/cluster/identity/token"
)

// joiners is how many nodes join at once.
const joiners = 8

// Join makes a fleet of nodes with some GPUs each, by a token that is good for as many uses, and
// attaches them.
func Join(ctx context.Context, text string, count, gpus int) (*Fleet, error) {
	presented, err := token.ParseJoin(text, time.Now())
	if err != nil {
		return nil, err
	}
	first := credentials.NewTLS(channel.FirstContact(presented.CA, time.Now))
	conn, err := grpc.NewClient("passthrough:///"+presented.Addresses[0], grpc.WithTransportCredentials(first))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	f := &Fleet{starts: map[string]int{}, first: map[uint64]time.Time{}}
	f.Nodes = make([]*Node, count)
	contacts := make([]link.Contact, count)
	group, joining := errgroup.WithContext(ctx)
	group.SetLimit(joiners)
	for i := range f.Nodes {
		f.Nodes[i] = newNode(f, fmt.Sprintf("hollow-%04d", i), gpus)
		group.Go(func() (err error) {
			contacts[i], err = f.Nodes[i].join(joining, api.NewAgentsClient(conn), text)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	f.attach(contacts)
	return f, nil
}

// attach keeps all nodes attached until Close.
func (f *Fleet) attach(contacts []link.Contact) {
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	for i, n := range f.Nodes {
		f.alive.Go(func() {
			_ = link.New(contacts[i], n).Run(ctx) // it ends with the context
		})
	}
}

// join gets a certificate for a node, and returns how it reaches the controllers with it.
func (n *Node) join(ctx context.Context, client api.AgentsClient, text string) (link.Contact, error) {
	about, err := client.About(ctx, &api.AboutRequest{})
	if err != nil {
		return link.Contact{}, api.FromStatus(err)
	}
	key, err := authority.NewKey()
	if err != nil {
		return link.Contact{}, err
	}
	subject := identity.Subject{Cluster: identity.ClusterID(about.GetClusterId()), Kind: identity.Node, Name: n.Name}
	request, err := authority.NewRequest(subject, key)
	if err != nil {
		return link.Contact{}, err
	}
	reply, err := client.Join(ctx, &api.JoinRequest{Token: text, Name: n.Name, Csr: request, BootId: bootID})
	if err != nil {
		return link.Contact{}, api.FromStatus(err)
	}
	bundle, err := authority.ParseBundle(reply.GetBundle())
	if err != nil {
		return link.Contact{}, err
	}
	certificate, err := x509.ParseCertificate(reply.GetCertificate())
	if err != nil {
		return link.Contact{}, err
	}
	holder := channel.NewHolder(&tls.Certificate{
		Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate,
	}, bundle)
	return link.Contact{
		Controllers: reply.GetControllers(), Dial: link.Dialer(holder),
		SaveControllers: func([]string) error { return nil },
		Certificate:     renewal.New(holder, unkept, time.Now), Log: slog.New(slog.DiscardHandler),
	}, nil
}

// unkept keeps no certificate: a hollow node ends with its process.
func unkept(*x509.Certificate, authority.Bundle) error { return nil }
