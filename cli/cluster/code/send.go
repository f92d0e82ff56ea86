package code

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
)

// partBytes is how many bytes go into one message.
const partBytes = 256 << 10

// Send sends packed code unless the cluster has it, and reports whether it did.
func Send(ctx context.Context, to api.LaunchesClient, p *Packed) (sent bool, err error) {
	ref := p.Ref()
	for again := false; ; again = true {
		// It also finds the leader, for the stream after it.
		found, err := to.FindCode(ctx, ref)
		if err != nil {
			return false, fmt.Errorf("ask for the code of the launch: %w", err)
		}
		if found.GetFound() {
			return again, nil
		}
		err = stream(ctx, to, p, ref)
		if err == nil {
			return true, nil
		}
		if again || !errors.Is(err, api.ErrUnavailable) {
			return false, fmt.Errorf("send the code of the launch: %w", err)
		}
	}
}

// stream sends packed code part by part.
func stream(ctx context.Context, to api.LaunchesClient, p *Packed, ref *api.CodeRef) error {
	parts, err := to.SendCode(ctx)
	if err != nil {
		return err
	}
	for from := 0; from < len(p.Bytes) && err == nil; from += partBytes {
		part := &api.CodePart{Data: p.Bytes[from:min(from+partBytes, len(p.Bytes))]}
		if from == 0 {
			part.Ref = ref
		}
		err = parts.Send(part)
	}
	if err != nil && !errors.Is(err, io.EOF) { // of io.EOF, the answer says why
		return err
	}
	_, err = parts.CloseAndRecv()
	return err
}
