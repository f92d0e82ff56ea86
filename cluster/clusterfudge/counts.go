package clusterfudge

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
)

// list returns a page of launches; pages are counted from 0.
func (c client) list(ctx context.Context, page, limit int) (*wire.ListLaunchesResponse, error) {
	all, err := c.launches.List(ctx, &api.ListRequest{Ended: true})
	if err != nil {
		return nil, err
	}
	count := len(all.GetLaunches())
	reply := &wire.ListLaunchesResponse{PageDetails: &wire.PageDetails{TotalPages: int32((count + limit - 1) / limit)}}
	from := min(int64(page)*int64(limit), int64(count))
	for _, each := range all.GetLaunches()[from:min(from+int64(limit), int64(count))] {
		k, err := c.ask(ctx, each.GetId())
		if err != nil {
			return nil, err
		}
		k.script = "" // a page of them could be larger than one message
		reply.Launches = append(reply.Launches, k.view())
		reply.LaunchStatusCounts = append(reply.LaunchStatusCounts, k.counts())
	}
	return reply, nil
}

// counts says how many replicas and processes are how far.
func (k known) counts() *wire.LaunchStatusCounts {
	counts := &wire.LaunchStatusCounts{Id: k.GetId(), Processes: &wire.StatusCounts{}}
	for _, job := range k.spec.Jobs {
		of := &wire.JobStatusCounts{JobName: job.Name, Replicas: &wire.StatusCounts{}}
		for _, r := range k.GetReplicas() {
			if r.GetJob() == job.Name {
				count(of.Replicas, r.GetPhase(), 1)
				count(counts.Processes, r.GetPhase(), int64(len(job.Processes)))
			}
		}
		counts.Jobs = append(counts.Jobs, of)
	}
	return counts
}

// count adds to the counts what is in a phase of replicas.
func count(c *wire.StatusCounts, phase string, n int64) {
	c.Total += n
	switch phase {
	case "running", "stopping":
		c.Running += n
	case "done":
		c.Succeeded += n
	case "failed":
		c.Failed += n
	case "stopped":
		c.Stopped += n
	default:
		c.Pending += n
	}
}
