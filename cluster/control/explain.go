package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/why"
)

// forecastSteps is how far ahead an estimate looks.
const forecastSteps = 10_000

// explain adds what the scheduler says of why a job waits, and when it starts by the owners'
// estimates.
func (q *queue) explain(ctx context.Context, id cluster.JobID, reply *api.WhyReply) error {
	if !q.gpus {
		return nil // it would speak of GPUs; blockers has said what is missing
	}
	policies, err := q.leader.settings.Policies()
	if err != nil {
		return err
	}
	policies.Place = q.placer.copy()
	var answer *why.Answer
	var future *why.Future
	err = q.loop.Do(ctx, func(e *scheduler.Engine) {
		if answer, err = why.Explain(e, id); err == nil {
			future, err = why.Ahead(e, id, policies)
		}
	})
	if err != nil || answer == nil {
		return ignoreUnknown(err)
	}
	reply.Reasons = append(reply.Reasons, answer.Text()...)
	if future == nil {
		return nil
	}
	forecast := future.Start(forecastSteps)
	reply.Reasons = append(reply.Reasons, forecast.Text(answer.Now))
	if forecast.Known {
		reply.EstimateUnixMs = q.leader.clock.began.Add(forecast.At).UnixMilli()
	}
	return nil
}

// ignoreUnknown drops the error that the scheduler does not know a job: it has just been placed, or
// waits for more nodes.
func ignoreUnknown(err error) error {
	if errors.Is(err, scheduler.ErrUnknownJob) {
		return nil
	}
	return err
}

// blockers says, in one sentence for each, why nodes cannot take a part of a launch now, besides
// GPUs that are taken.
func (l *Leader) blockers(p *part) (reasons []string) {
	if p.tooLarge {
		reasons = append(reasons, "all nodes together are too small for it; it waits for more: the cluster has "+l.has())
	}
	want := needOf(p)
	counts := map[string]int{}
	for _, n := range l.nodes {
		if reason := l.blocker(n, &want); reason != "" {
			counts[reason]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		reasons = append(reasons, fmt.Sprintf("%d of %d nodes: %s", counts[reason], len(l.nodes), reason))
	}
	if len(l.nodes) == 0 {
		reasons = append(reasons, "no node has joined")
	}
	return reasons
}

// blocker says why a node cannot take any replica of a part now; empty: it could, but for GPUs that
// are taken.
func (l *Leader) blocker(n *node, want *need) string {
	t := n.tableNode()
	open := t
	open.open = true
	switch {
	case !t.allowed(want.place):
		return "not where the launch may run"
	case n.Cordoned || n.Draining:
		return "cordoned"
	case !t.open:
		return string(l.state(n)) + " since " + l.clock.wall().Add(n.renewed-l.clock.boot()).Format(time.TimeOnly)
	}
	for i := range want.replicas {
		if open.takes(want, &want.replicas[i], 0, 0) {
			return ""
		}
	}
	if open.exclusive != "" || want.place.WholeNodes && len(t.launches) > 0 {
		return "a launch wants the whole node"
	}
	return "too few free CPUs, or too little free memory"
}
