package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
)

// partBytes is how many bytes go into one message.
const partBytes = 256 << 10

// Send keeps packed code in the cluster, unless the cluster has it, and returns its name.
func Send(ctx context.Context, to api.LaunchesClient, p *Packed) (*api.CodeRef, error) {
	ref := p.Ref()
	found, err := to.FindCode(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("ask for the code of the launch: %w", err)
	}
	if found.GetFound() {
		return ref, nil
	}
	parts, err := to.SendCode(ctx)
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(p.Bytes) && err == nil; from += partBytes {
		part := &api.CodePart{Data: p.Bytes[from:min(from+partBytes, len(p.Bytes))]}
		if from == 0 {
			part.Ref = ref
		}
		err = parts.Send(part)
	}
	if err != nil && !errors.Is(err, io.EOF) { // of io.EOF, the answer says why
		return nil, err
	}
	_, err = parts.CloseAndRecv()
	return ref, err
}
