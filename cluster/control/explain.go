package control

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// explain adds what the scheduler says of why a job waits.
func (q *queue) explain(_ context.Context, _ cluster.JobID, _ *api.WhyReply) error { return nil }
