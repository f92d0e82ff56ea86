package control

import (
	"context"
	"errors"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
)

// agents is the service for the agents of nodes.
type agents struct {
	api.UnimplementedAgentsServer
	*Controller
	callers Callers
	code    *CodeStore
	joins   Joins
}

// Attach serves the stream of an agent until it ends, or this controller no longer leads.
func (s *agents) Attach(stream api.Agents_AttachServer) error {
	ctx := stream.Context()
	caller, err := s.node(ctx)
	if err != nil {
		return err
	}
	name := caller.Name
	leader, err := s.leading(ctx)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return api.Invalid("the first message is no Hello")
	}
	session := newSession()
	if err := leader.ask(ctx, func() error { return leader.attach(name, caller.Key.String(), hello, session) }); err != nil {
		return err
	}
	defer leader.turns.add(func() { leader.detach(name, session) })
	go func() { session.end(receiveAll(stream, leader, name, session)) }()
	return sendAll(stream, session)
}

// node returns the node that the caller is.
func (s *agents) node(ctx context.Context) (identity.Caller, error) {
	caller, err := s.callers.Of(ctx)
	if err != nil {
		return identity.Caller{}, err
	}
	return caller, identity.Check(caller, identity.Report, identity.Target{Thing: identity.Machine, Owner: caller.Name})
}

// receiveAll passes on what an agent sends, until the stream ends.
func receiveAll(stream api.Agents_AttachServer, leader *Leader, name string, session *session) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !leader.turns.add(func() { leader.receive(name, session, message) }) {
			return ErrNotLeading
		}
	}
}

// sendAll sends what waits in a session, until it ends.
func sendAll(stream api.Agents_AttachServer, session *session) error {
	for {
		for _, message := range session.take() {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		select {
		case <-session.ready:
		case <-session.finished:
			return session.reason()
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Answer passes the parts of an answer on to the request that has asked.
func (s *agents) Answer(stream api.Agents_AnswerServer) error {
	ctx := stream.Context()
	caller, err := s.node(ctx)
	if err != nil {
		return err
	}
	leader, err := s.leading(ctx)
	if err != nil {
		return err
	}
	var q *question
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if q != nil {
				leader.asks.finish(q, nil)
			}
			return stream.SendAndClose(&api.AnswerReply{})
		}
		if err != nil {
			if q != nil {
				leader.asks.finish(q, ErrNodeSilent)
			}
			return err
		}
		if q == nil {
			if q = leader.asks.find(part.GetQuestion(), caller.Name); q == nil {
				return api.Invalid("no such question")
			}
		}
		select {
		case q.parts <- part:
		case <-q.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GetCode sends packed code to an agent that has an order with it.
func (s *agents) GetCode(ref *api.CodeRef, stream api.Agents_GetCodeServer) error {
	if _, err := s.node(stream.Context()); err != nil {
		return err
	}
	return s.code.send(ref, func(data []byte) error { return stream.Send(&api.CodePart{Data: data}) })
}

// About says which cluster this is.
func (s *agents) About(context.Context, *api.AboutRequest) (*api.AboutReply, error) {
	return &api.AboutReply{ClusterId: s.joins.ClusterID()}, nil
}

// Join makes a machine with a join token a node.
func (s *agents) Join(ctx context.Context, request *api.JoinRequest) (*api.JoinReply, error) {
	leader, err := s.leading(ctx)
	if err != nil {
		return nil, err
	}
	return s.joins.Join(ctx, leader, request)
}
