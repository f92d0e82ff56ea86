package archive

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

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
	return ref, messages.SendCode(ctx, to, ref, p.Bytes)
}
