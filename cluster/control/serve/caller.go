package serve

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
)

// Callers finds out which caller makes a request.
type Callers interface {
	// Of returns the caller of the request that a context belongs to, or api.ErrUnknownCaller.
	Of(ctx context.Context) (identity.Caller, error)
}

// Joins makes machines nodes.
type Joins interface {
	// About says which cluster this is, and how it is known.
	About() *api.AboutReply
	Join(ctx context.Context, leader *control.Leader, request *api.JoinRequest) (*api.JoinReply, error)
	// Bundle is the CAs that nodes trust, as PEM.
	Bundle() []byte
	// Renew signs the next certificate of a node.
	Renew(of identity.Caller, request []byte) *api.Issued
}

// front is what all services have: the callers, and the controller that leads.
type front struct {
	*control.Controller
	callers Callers
}

// asked returns the caller, and the leader.
func (f front) asked(ctx context.Context) (identity.Caller, *control.Leader, error) {
	caller, err := f.callers.Of(ctx)
	if err != nil {
		return identity.Caller{}, nil, err
	}
	leader, err := f.Leading(ctx)
	return caller, leader, err
}

// firstOf receives the first message of a stream, which names what the others are about.
func firstOf[Message any](receive func() (Message, error)) (Message, error) {
	first, err := receive()
	if errors.Is(err, io.EOF) {
		err = api.Invalid("the stream has ended before its first message")
	}
	return first, err
}

// room returns an error while the controller has no room for new launches.
func (f front) room() error {
	if room := f.Settings().Room; room != nil {
		return room()
	}
	return nil
}

// maySee reports whether a caller may see launches of an account.
func maySee(c identity.Caller, owner string) bool {
	return identity.May(c, identity.View, identity.Target{Thing: identity.Launch, Owner: owner})
}

// mayChange returns an error unless a caller may change launches of an account.
func mayChange(c identity.Caller, owner string) error {
	return identity.Check(c, identity.Change, identity.Target{Thing: identity.Launch, Owner: owner})
}

// launchAccount returns the account that a new launch of a caller runs as. Whether it is root by
// another name is checked on the node.
func launchAccount(c identity.Caller) (string, error) {
	target := identity.Target{Thing: identity.Launch, Owner: c.Account}
	if err := identity.Check(c, identity.Create, target); err != nil {
		return "", err
	}
	if c.Account == "" {
		return "", fmt.Errorf("%w: %s has no account on the nodes", identity.ErrForbidden, c)
	}
	const anyUser = 1 // the uid is known on the node only
	return c.Account, c.CheckAccount(c.Account, anyUser)
}

// administer returns an error unless a caller may change the cluster itself.
func administer(c identity.Caller) error {
	return identity.Check(c, identity.Change, identity.Target{Thing: identity.Settings})
}
