package code

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

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
		err = messages.SendCode(ctx, to, ref, p.Bytes)
		if err == nil {
			return true, nil
		}
		if again || !errors.Is(err, api.ErrUnavailable) {
			return false, fmt.Errorf("send the code of the launch: %w", err)
		}
	}
}
