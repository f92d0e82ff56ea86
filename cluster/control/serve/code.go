package serve

import (
	"context"
	"encoding/hex"

	"github.com/phos-gpu/phos/cluster/api"
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
	ref, err := s.receiveCode(stream)
	if err == nil && !copied {
		err = s.code.Spread(stream.Context(), ref)
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(ref)
}

// receiveCode keeps what a stream sends, and returns its name.
func (s *launches) receiveCode(stream api.Launches_SendCodeServer) (*api.CodeRef, error) {
	first, err := firstOf(stream.Recv)
	if err != nil {
		return nil, err
	}
	ref := first.GetRef()
	if ref == nil {
		return nil, api.Invalid("the first part of code does not name its hash")
	}
	return ref, s.code.Receive(ref, func() (part *api.CodePart, err error) {
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
