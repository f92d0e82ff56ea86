package serve

import (
	"context"
	"encoding/hex"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/record"
)

// FindCode reports whether the cluster has the code with a hash already.
func (s *launches) FindCode(ctx context.Context, ref *api.CodeRef) (*api.FindCodeReply, error) {
	if _, _, err := s.asked(ctx); err != nil {
		return nil, err
	}
	return &api.FindCodeReply{Found: s.code.Has(ref)}, nil
}

// SendCode keeps a packed directory on most controllers. The leader sends it to the others.
func (s *launches) SendCode(stream api.Launches_SendCodeServer) error {
	caller, err := s.callers.Of(stream.Context())
	if err != nil {
		return err
	}
	copied := caller.Kind == identity.Controller
	if _, err := s.Leading(stream.Context()); err != nil && !copied {
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
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	ref := first.GetRef()
	if ref == nil {
		return nil, api.Invalid("the first part of code does not name its hash")
	}
	part := first.GetData()
	return ref, s.code.Receive(ref, func() ([]byte, error) {
		if part != nil {
			data := part
			part = nil
			return data, nil
		}
		next, err := stream.Recv()
		return next.GetData(), err
	})
}

// codeOf converts the name of packed code of a message.
func codeOf(ref *api.CodeRef) record.Code {
	return record.Code{Hash: hex.EncodeToString(ref.GetHash()), Bytes: ref.GetBytes()}
}
