package archive

import (
	"bytes"
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

// Send keeps packed code in the cluster, unless the cluster has it, and returns its name.
func Send(ctx context.Context, to api.LaunchesClient, p *Packed) (*api.CodeRef, error) {
	ref := p.Ref()
	_, err := messages.SendCode(ctx, to, ref, bytes.NewReader(p.Bytes))
	return ref, err
}
