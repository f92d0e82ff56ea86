package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/access"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/token"
)

// contact is a controller that is to prove that it is one of the cluster with a CA.
type contact struct {
	address string
	ca      identity.Fingerprint
}

// contactTime is how long a controller has for each answer.
const contactTime = 15 * time.Second

// errLiar means that a controller with the right CA says that other CAs are the cluster's.
var errLiar = errors.New("the controller names other CAs than its own")

// introduce asks the controller for the cluster's CAs and addresses, and then, by those, whether it
// takes the token.
func (c contact) introduce(ctx context.Context, secret token.User) (access.Access, *api.Caller, error) {
	kept := access.Access{Token: secret}
	if err := c.prove(ctx); err != nil {
		return kept, nil, err
	}
	about, err := c.about(ctx)
	if err != nil {
		return kept, nil, err
	}
	if kept.Bundle, err = authority.ParseBundle(about.GetBundle()); err != nil {
		return kept, nil, err
	}
	if !kept.Bundle.Trusts(c.ca) {
		return kept, nil, errLiar
	}
	kept.Addresses = []string{c.address}
	for _, each := range about.GetControllers() {
		if !slices.Contains(kept.Addresses, each) {
			kept.Addresses = append(kept.Addresses, each)
		}
	}
	caller, err := c.greet(ctx, kept)
	return kept, caller, err
}

// errOtherCA means that a server does not show the CA that the user expects.
var errOtherCA = errors.New("the server there does not have the CA of --ca: it is another cluster, or the CA was replaced; " +
	"phos --status --target cluster on the controller's machine prints the fingerprint")

// prove returns an error unless a controller with the CA is there.
func (c contact) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	err := channel.Prove(ctx, c.address, c.ca, time.Now)
	if errors.Is(err, identity.ErrOtherCluster) {
		return errOtherCA
	}
	return err
}

// about asks for what the cluster says to every caller. The token is not sent.
func (c contact) about(ctx context.Context) (*api.AboutReply, error) {
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithNoProxy(),
		grpc.WithTransportCredentials(credentials.NewTLS(channel.FirstContact(c.ca, time.Now))))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := api.NewAgentsClient(conn).About(ctx, &api.AboutRequest{})
	return reply, api.FromStatus(err)
}

// greet asks which caller the token stands for.
func (c contact) greet(ctx context.Context, kept access.Access) (*api.Caller, error) {
	client := api.Connect(api.Endpoints{
		Addresses: []string{c.address}, TLS: channel.Client(channel.NewHolder(nil, kept.Bundle), time.Now),
		Bearer: kept.Token.Bearer(), Patience: contactTime,
	})
	defer client.Close()
	reply, err := client.Cluster.Status(ctx, &api.StatusRequest{})
	return reply.GetCaller(), err
}

// result is what login prints as JSON.
type result struct {
	Cluster   string   `json:"cluster"`
	Addresses []string `json:"addresses"`
	User      string   `json:"user"`
	Account   string   `json:"account"`
	Role      string   `json:"role"`
	File      string   `json:"file"`
}

// tell prints what was kept.
func tell(to verb.Streams, kept access.Access, c *api.Caller, path string, asJSON bool) error {
	if asJSON {
		return view.JSON(to.Out, result{
			string(kept.Bundle.Cluster()), kept.Addresses, c.GetName(), c.GetAccount(), c.GetRole(), path,
		})
	}
	_, err := fmt.Fprintf(to.Out, "logged in at cluster %s as %s, which %s; %s has the token\n\n  phos ps\n  phos launch -- hostname\n",
		kept.Bundle.Cluster(), humanize.Shorten(c.GetName(), 60), roleText(c), humanize.Printable(path))
	return err
}
