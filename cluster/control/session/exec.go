package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
)

// Carry lends the stream by which a node answers to the request that has asked, until that is done.
func (q *Question) Carry(ctx context.Context, stream api.Agents_ExecServer) error {
	select {
	case q.carriers <- stream:
	default:
		return api.Invalid("the question has its answer")
	}
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Carrier waits for the stream by which a node answers.
func (q *Question) Carrier(ctx context.Context) (api.Agents_ExecServer, error) {
	select {
	case stream := <-q.carriers:
		return stream, nil
	case part := <-q.parts: // an agent of an older version says what it does not know
		for part.GetError() == "" {
			select {
			case part = <-q.parts:
			case <-q.done:
				return nil, fmt.Errorf("%w: it gives no answer", ErrNodeSilent)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, fmt.Errorf("%w: %s", api.ErrRefused, part.GetError())
	case <-q.done:
		return nil, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Relay passes messages on between a user and a node, one at a time each way, so that the slower
// side holds up the faster one. It returns when the command has ended, or a side is gone. ended is
// called with the end of the command, before the user has it.
func (q *Question) Relay(
	user api.Launches_ExecServer, node api.Agents_ExecServer, begun *api.ExecStarted, ended func(*api.ExecEnd),
) error {
	failed := make(chan error, 2)
	go func() {
		for {
			message, err := user.Recv()
			if errors.Is(err, io.EOF) { // the user has no more to say, and still listens
				return
			}
			if err == nil && message.GetStart() != nil {
				err = api.Invalid("ExecStart is the first message only")
			}
			if err == nil {
				err = node.Send(message)
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	go func() { failed <- q.relayReplies(user, node, begun, ended) }()
	select {
	case err := <-failed:
		return err
	case <-q.done:
		if errors.Is(q.err, ErrNodeSilent) {
			return q.lost()
		}
		return q.err
	}
}

// lost says what has become of a command whose agent is gone.
func (q *Question) lost() error {
	return fmt.Errorf("node %s: %w: its agent is gone, and what it ran for phos exec was killed", q.node, ErrNodeSilent)
}

// relayReplies passes on what comes from a command, until its end.
func (q *Question) relayReplies(
	user api.Launches_ExecServer, node api.Agents_ExecServer, begun *api.ExecStarted, ended func(*api.ExecEnd),
) error {
	for {
		reply, err := node.Recv()
		if err != nil {
			return q.lost()
		}
		if reply.GetStarted() != nil {
			reply = &api.ExecReply{Message: &api.ExecReply_Started{Started: begun}}
		}
		if reply.GetEnd() != nil {
			ended(reply.GetEnd())
		}
		if err := user.Send(reply); err != nil {
			return err
		}
		if reply.GetEnd() != nil {
			return nil
		}
	}
}
