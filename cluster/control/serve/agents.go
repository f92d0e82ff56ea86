package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
)

// agents is the service for the agents of nodes.
type agents struct {
	api.UnimplementedAgentsServer
	front
	code        *code.Copies
	logs        *logs.Store
	joins       Joins
	controllers Controllers
}

// Attach serves the stream of an agent until it ends, or this controller no longer leads.
func (s *agents) Attach(stream api.Agents_AttachServer) error {
	ctx := stream.Context()
	caller, leader, err := s.agent(ctx)
	if err != nil {
		return err
	}
	first, err := firstOf(stream.Recv)
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return api.Invalid("the first message is no Hello")
	}
	attached, err := leader.Attach(ctx, caller.Name, caller.Key.String(), hello)
	if err != nil {
		return err
	}
	defer leader.Detach(caller.Name, attached)
	go func() { attached.End(s.receiveAll(stream, leader, caller, attached)) }()
	return attached.Serve(ctx, s.trusting(s.locating(stream.Send)))
}

// agent returns the node whose agent opens a stream, and the leader.
func (s *agents) agent(ctx context.Context) (identity.Caller, *control.Leader, error) {
	caller, err := s.node(ctx)
	if err != nil {
		return identity.Caller{}, nil, err
	}
	leader, err := s.Leading(ctx)
	return caller, leader, err
}

// node returns the node that the caller is.
func (s *agents) node(ctx context.Context) (identity.Caller, error) {
	caller, err := s.callers.Of(ctx)
	if err != nil {
		return identity.Caller{}, err
	}
	return caller, identity.Check(caller, identity.Report, identity.Target{Thing: identity.Machine, Owner: caller.Name})
}

// sender sends a message to an agent.
type sender = func(*api.ToAgent) error

// trusting returns what sends messages to an agent, and the CAs to trust: in the first message, and
// before another one when they have changed.
func (s *agents) trusting(send sender) sender {
	var told []byte
	return func(message *api.ToAgent) error {
		bundle := s.joins.Bundle()
		if first := message.GetWelcome(); first != nil {
			first.Bundle = bundle
		} else if !bytes.Equal(told, bundle) {
			if err := send(&api.ToAgent{Message: &api.ToAgent_Trust{Trust: &api.Trust{Bundle: bundle}}}); err != nil {
				return err
			}
		}
		told = bundle
		return send(message)
	}
}

// locating returns what sends messages to an agent, and likewise where the controllers are: one of
// them leads when this one has died. Renewals see to it that another message comes soon.
func (s *agents) locating(send sender) sender {
	var told []string
	return func(message *api.ToAgent) error {
		all := s.controllers.Addresses()
		if first := message.GetWelcome(); first != nil {
			first.Controllers = all
		} else if !slices.Equal(told, all) {
			others := &api.Controllers{Addresses: all}
			if err := send(&api.ToAgent{Message: &api.ToAgent_Controllers{Controllers: others}}); err != nil {
				return err
			}
		}
		told = all
		return send(message)
	}
}

// receiveAll passes on what an agent sends, until the stream ends. A certificate is no matter of
// the leader's.
func (s *agents) receiveAll(
	stream api.Agents_AttachServer, leader *control.Leader, from identity.Caller, to *session.Session,
) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if request := message.GetCsr(); request != nil {
			to.Send(&api.ToAgent{Message: &api.ToAgent_Issued{Issued: s.joins.Renew(from, request)}})
			continue
		}
		if !leader.Receive(from.Name, to, message) {
			return control.ErrNotLeading
		}
	}
}

// Answer passes the parts of an answer on to the request that has asked.
func (s *agents) Answer(stream api.Agents_AnswerServer) error {
	ctx := stream.Context()
	caller, leader, err := s.agent(ctx)
	if err != nil {
		return err
	}
	first, err := firstOf(stream.Recv)
	if err != nil {
		return err
	}
	questions := leader.Questions()
	q := questions.Find(first.GetQuestion(), caller.Name)
	if q == nil {
		return api.Invalid("no such question")
	}
	if err := passOn(stream, first, q); err != nil {
		questions.Finish(q, session.ErrNodeSilent)
		return err
	}
	questions.Finish(q, nil)
	return stream.SendAndClose(&api.AnswerReply{})
}

// passOn gives the parts of an answer to its question, until the agent has sent all or no more is
// wanted.
func passOn(stream api.Agents_AnswerServer, part *api.AnswerPart, to *session.Question) (err error) {
	for {
		if wanted, err := to.Give(stream.Context(), part); !wanted {
			return err
		}
		if part, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// GetCode sends packed code to an agent that has an order with it, or to another controller. For an
// agent, code that this controller lacks is got from the others first.
func (s *agents) GetCode(ref *api.CodeRef, stream api.Agents_GetCodeServer) error {
	ctx := stream.Context()
	caller, err := s.callers.Of(ctx)
	if err != nil {
		return err
	}
	if caller.Kind != identity.Controller {
		if _, err := s.node(ctx); err != nil {
			return err
		}
		if err := s.code.Fetch(ctx, ref); err != nil {
			return err
		}
	}
	file, err := s.code.Open(ref)
	if err != nil {
		return err
	}
	defer file.Close()
	return messages.SendParts(file, stream.Send)
}

// Members returns the members of a launch to the agent of a node where it has processes.
func (s *agents) Members(ctx context.Context, request *api.MembersRequest) (reply *api.MembersReply, err error) {
	caller, leader, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		l := t.Find(request.GetLaunch())
		if l == nil || !slices.ContainsFunc(l.State.Replicas, func(r launch.Replica) bool {
			return r.Live && r.Node == caller.Name
		}) {
			return fmt.Errorf("%w: launch %.100q has no processes on node %s", api.ErrNotFound, request.GetLaunch(), caller.Name)
		}
		reply = t.Members(l)
		return nil
	})
}

// MayFetch allows that another node fetches an image from that of the caller.
func (s *agents) MayFetch(ctx context.Context, request *api.MayFetchRequest) (reply *api.MayFetchReply, err error) {
	caller, leader, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		l := t.Find(request.GetAttempt().GetLaunch())
		if l == nil {
			return fmt.Errorf("%w: launch %.100q", api.ErrNotFound, request.GetAttempt().GetLaunch())
		}
		reply, err = t.MayFetch(l, caller.Name, request)
		return err
	})
}

// About says which cluster this is. Callers that know nothing of it yet may ask.
func (s *agents) About(context.Context, *api.AboutRequest) (*api.AboutReply, error) {
	return s.joins.About(), nil
}

// Join makes a machine with a join token a node.
func (s *agents) Join(ctx context.Context, request *api.JoinRequest) (*api.JoinReply, error) {
	leader, err := s.Leading(ctx)
	if err != nil {
		return nil, err
	}
	return s.joins.Join(ctx, leader, request)
}
