package serve

import (
	"context"
	"encoding/hex"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// FindCode reports whether the cluster has the code with a hash already.
func (s *launches) FindCode(ctx context.Context, ref *api.CodeRef) (*api.FindCodeReply, error) {
	if _, _, err := s.asked(ctx); err != nil {
		return nil, err
	}
	return &api.FindCodeReply{Found: s.code.Has(ref)}, nil
}

// SendCode keeps a packed directory.
func (s *launches) SendCode(stream api.Launches_SendCodeServer) error {
	if _, _, err := s.asked(stream.Context()); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ref := first.GetRef()
	if ref == nil {
		return api.Invalid("the first part of code does not name its hash")
	}
	part := first.GetData()
	err = s.code.Receive(ref, func() ([]byte, error) {
		if part != nil {
			data := part
			part = nil
			return data, nil
		}
		next, err := stream.Recv()
		return next.GetData(), err
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(ref)
}

// codeOf converts the name of packed code of a message.
func codeOf(ref *api.CodeRef) record.Code {
	return record.Code{Hash: hex.EncodeToString(ref.GetHash()), Bytes: ref.GetBytes()}
}
