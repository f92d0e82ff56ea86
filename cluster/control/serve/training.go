package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/record"
)

// Training returns what a launch that trains says of itself. All its nodes are asked at once: the
// rank that leads tells its own node, and the newest word counts.
func (s *launches) Training(ctx context.Context, request *api.GetRequest) (*api.TrainingReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	var id string
	var nodes []string
	if err := leader.Ask(ctx, func(t control.Turn) error {
		l, err := visible(t, caller, request.GetId())
		if err != nil {
			return err
		}
		id, nodes = l.ID, nodesOf(l)
		return nil
	}); err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: launch %.100q has no processes now, so it does not train", api.ErrNotFound, request.GetId())
	}
	reply := askTrainings(ctx, leader, id, nodes)
	if reply.GetStatus() == nil && len(reply.GetNotices()) == 0 {
		return nil, fmt.Errorf("%w: launch %.100q does not train with phos.pipeline, or has not begun to", api.ErrNotFound,
			request.GetId())
	}
	return reply, nil
}

// nodesOf returns the nodes that have processes of a launch.
func nodesOf(l *record.Launch) (nodes []string) {
	for _, r := range l.State.Replicas {
		if r.Live && !slices.Contains(nodes, r.Node) {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes
}

// askTrainings asks nodes how old their news of a training are, for a limited time, and then one
// that has the newest what these are.
func askTrainings(ctx context.Context, leader *control.Leader, id string, nodes []string) *api.TrainingReply {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	reply := &api.TrainingReply{}
	ask := func(node string, ageOnly bool, take func(*api.TrainingStatus)) {
		question := &api.Ask{Training: &api.TrainingQuestion{Launch: id, AgeOnly: ageOnly}}
		err := askNode(ctx, leader, node, question, func(part *api.AnswerPart) {
			mu.Lock()
			defer mu.Unlock()
			if said := part.GetTraining(); said != nil {
				take(said)
			}
		})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			reply.Notices = append(reply.Notices, fmt.Sprintf("node %s: %s", node, nodeProblem(err, "what it knows of the training")))
		}
	}
	for _, node := range nodes {
		all.Go(func() {
			ask(node, true, func(said *api.TrainingStatus) {
				if reply.GetNode() == "" || said.GetAgeMs() < reply.GetAgeMs() {
					reply.AgeMs, reply.Node = said.GetAgeMs(), node
				}
			})
		})
	}
	all.Wait()
	if reply.GetNode() != "" {
		ask(reply.GetNode(), false, func(said *api.TrainingStatus) { reply.Status, reply.AgeMs = said.GetStatus(), said.GetAgeMs() })
	}
	slices.Sort(reply.Notices)
	return reply
}
