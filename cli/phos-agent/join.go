package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/ticks"
)

// joinTime is how long joining may take.
const joinTime = 30 * time.Second

// contactTime is how long a controller has to show its certificate.
const contactTime = 5 * time.Second

// Waits between rounds in which no controller answered. An election takes some seconds.
const firstJoinWait, longestJoinWait = 250 * time.Millisecond, 4 * time.Second

// join makes this machine a node.
func (o *options) join(ctx context.Context, text string) error {
	j, err := o.newJoining(text)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.stateDir, 0o711); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	reply, err := j.ask(ctx)
	if err != nil {
		return fmt.Errorf("join as %s: %w", j.node, err)
	}
	made, err := newMembership(j.node, reply, j.key)
	if err != nil {
		return err
	}
	if err := o.save(made); err != nil {
		return err
	}
	fmt.Printf("joined cluster %s as node %s\n", reply.GetClusterId(), j.node)
	return nil
}

// joining is a machine that asks to be a node.
type joining struct {
	node, boot string
	text       string // of the token
	token      token.Join
	key        *ecdsa.PrivateKey
}

// newJoining reads a token, and makes the node's key.
func (o *options) newJoining(text string) (*joining, error) {
	presented, err := token.ParseJoin(text, time.Now())
	if err != nil {
		return nil, err
	}
	j := &joining{node: o.node, text: text, token: presented}
	if j.node == "" {
		if j.node, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	if err := identity.CheckNodeName(j.node); err != nil {
		return nil, err
	}
	if j.boot, err = proc.BootID(); err != nil {
		return nil, err
	}
	j.key, err = authority.NewKey()
	return j, err
}

// ask asks the controllers of the token until one has answered. It asks again while none can: they
// may be electing a leader.
func (j *joining) ask(ctx context.Context) (*api.JoinReply, error) {
	var unavailable error
	for wait := firstJoinWait; ; wait = min(2*wait, longestJoinWait) {
		reply, err := j.askEach(ctx)
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil && unavailable != nil:
			return nil, unavailable // it says more than that the time is over
		case !errors.Is(err, api.ErrUnavailable):
			return nil, err
		}
		if unavailable == nil {
			fmt.Fprintf(os.Stderr, "phos-agent: %v; asking again for %v\n", err, joinTime)
		}
		unavailable = err
		_ = ticks.Pause(ctx, wait) // the end of the time is seen above
	}
}

// askEach asks the controllers, one after the other, until one has answered.
func (j *joining) askEach(ctx context.Context) (reply *api.JoinReply, err error) {
	for _, address := range j.token.Addresses {
		if err = j.prove(ctx, address); err == nil {
			reply, err = j.askAt(ctx, address)
		}
		if !errors.Is(err, api.ErrUnavailable) {
			return reply, err
		}
	}
	return nil, err
}

// prove returns an error unless a controller of the cluster is at an address.
func (j *joining) prove(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	err := channel.Prove(ctx, address, j.token.CA, time.Now)
	var unreachable *net.OpError
	if errors.As(err, &unreachable) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
		return &api.Error{Text: fmt.Sprintf("controller at %s: %v", address, err), Err: api.ErrUnavailable}
	}
	return err
}

// askAt asks the controller at an address. The request for a certificate names the cluster, which
// the controller's certificate has said: a first call without a request gets it.
func (j *joining) askAt(ctx context.Context, address string) (*api.JoinReply, error) {
	tls := credentials.NewTLS(channel.FirstContact(j.token.CA, time.Now))
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(tls))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := api.NewAgentsClient(conn)
	about, err := client.About(ctx, &api.AboutRequest{})
	if err != nil {
		return nil, api.FromStatus(err)
	}
	subject := identity.Subject{Cluster: identity.ClusterID(about.GetClusterId()), Kind: identity.Node, Name: j.node}
	request, err := authority.NewRequest(subject, j.key)
	if err != nil {
		return nil, err
	}
	reply, err := client.Join(ctx, &api.JoinRequest{Token: j.text, Name: j.node, Csr: request, BootId: j.boot})
	return reply, api.FromStatus(err)
}

// newMembership returns what is kept of a controller's answer.
func newMembership(node string, reply *api.JoinReply, key *ecdsa.PrivateKey) (membership, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return membership{}, err
	}
	return membership{
		Version: membershipVersion, Cluster: reply.GetClusterId(), Node: node, Controllers: reply.GetControllers(),
		Certificate: certificateText(reply.GetCertificate()),
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		Bundle:      string(reply.GetBundle()),
	}, nil
}
