package serve

import (
	"context"
	"encoding/hex"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/record"
)

// FindCode reports whether code is kept already: here if another controller asks, otherwise on most
// controllers. An earlier upload may have ended before that; then they get it now.
func (s *launches) FindCode(ctx context.Context, ref *api.CodeRef) (*api.FindCodeReply, error) {
	copied, err := s.asksForCopy(ctx)
	if err != nil {
		return nil, err
	}
	if !s.code.Has(ref) {
		return &api.FindCodeReply{}, nil
	}
	if !copied {
		err = s.code.Spread(ctx, ref)
	}
	return &api.FindCodeReply{Found: err == nil}, err
}

// asksForCopy reports whether the leader asks, who keeps code here, too. Anything else is asked of
// the leader itself.
func (s *launches) asksForCopy(ctx context.Context) (bool, error) {
	caller, err := s.callers.Of(ctx)
	if err != nil || caller.Kind == identity.Controller {
		return err == nil, err
	}
	_, err = s.Leading(ctx)
	return false, err
}

// SendCode keeps a packed directory on most controllers. The leader sends it to the others.
func (s *launches) SendCode(stream api.Launches_SendCodeServer) error {
	copied, err := s.asksForCopy(stream.Context())
	if err != nil {
		return err
	}
	first, err := firstOf(stream.Recv)
	if err != nil {
		return err
	}
	if err := s.room(); err != nil {
		return err
	}
	if copied {
		err = s.receiveCode(stream, first)
	} else {
		err = s.receiveFor(stream, first)
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(first.GetRef())
}

// receiveFor keeps what a user sends on most controllers, within the quota of the account.
func (s *launches) receiveFor(stream api.Launches_SendCodeServer, first *api.CodePart) error {
	ctx, code, noted := stream.Context(), codeOf(first.GetRef()), false
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return err
	}
	err = leader.Ask(ctx, func(t control.Turn) (err error) {
		noted, err = t.AdmitCode(caller.Account, code)
		return err
	})
	if err != nil {
		return err
	}
	if err = s.receiveCode(stream, first); err == nil {
		err = s.code.Spread(ctx, first.GetRef())
	}
	if err != nil && noted {
		// If this fails, the controller leads no longer, and the next one knows nothing of the code.
		_ = leader.Ask(context.WithoutCancel(ctx), func(t control.Turn) error {
			t.ForgetCode(caller.Account, code)
			return nil
		})
	}
	return err
}

// receiveCode keeps what a stream sends.
func (s *launches) receiveCode(stream api.Launches_SendCodeServer, first *api.CodePart) error {
	ref := first.GetRef()
	if ref == nil {
		return api.Invalid("the first part of code does not name its hash")
	}
	return s.code.Receive(ref, func() (part *api.CodePart, err error) {
		if first != nil { // it may have content, too
			part, first = first, nil
			return part, nil
		}
		return stream.Recv()
	})
}

// codeOf converts the name of packed code of a message.
func codeOf(ref *api.CodeRef) record.Code {
	return record.Code{Hash: hex.EncodeToString(ref.GetHash()), Bytes: ref.GetBytes()}
}
