package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/words"
)

// clusterService is the service about nodes and the cluster itself.
type clusterService struct {
	api.UnimplementedClusterServer
	front
	people      People
	controllers Controllers
}

// People keeps the users and join tokens of a cluster.
type People interface {
	// CA returns the fingerprint of the CA that signs now.
	CA() string
	NewJoinToken(ctx context.Context, by identity.Caller, request *api.NewJoinTokenRequest) (*api.NewJoinTokenReply, error)
	ListUsers(ctx context.Context) (*api.ListUsersReply, error)
	AddUser(ctx context.Context, by identity.Caller, request *api.AddUserRequest) (*api.AddUserReply, error)
	RemoveUser(ctx context.Context, name string) error
	// ReplaceCA makes a step of replacing the CA; an empty one only shows it.
	ReplaceCA(ctx context.Context, step string) (*api.ReplaceCAReply, error)
}

// administrator returns the leader, if an administrator asks.
func (s *clusterService) administrator(ctx context.Context, what string) (identity.Caller, *control.Leader, error) {
	caller, leader, err := s.asked(ctx)
	if err == nil && administer(caller) != nil {
		err = fmt.Errorf("%w: only an administrator may %s, and this is %s", api.ErrNotPermitted, what, caller)
	}
	return caller, leader, err
}

// Status returns the cluster at a glance.
func (s *clusterService) Status(ctx context.Context, _ *api.StatusRequest) (*api.StatusReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	controllers, err := s.controllers.Controllers(ctx)
	if err != nil {
		return nil, err
	}
	address, settings := s.Address(), s.Settings()
	reply := &api.StatusReply{
		Leader: address, Version: settings.Version, Scheduler: settings.Scheduler, Launches: map[string]uint32{},
		Controllers: controllerViews(controllers, address, settings.Page),
		Caller:      &api.Caller{Name: caller.Name, Account: caller.Account, Role: string(caller.Role)},
		Epoch:       uint64(leader.Epoch()),
		Ca:          s.people.CA(),
	}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		reply.ClusterId, reply.Nodes = t.ClusterID(), nodeViews(t.Nodes())
		for l := range t.Launches() {
			if maySee(caller, l.Owner) {
				reply.Launches[string(l.State.Phase)]++
			}
		}
		return nil
	})
}

// ListNodes returns the nodes.
func (s *clusterService) ListNodes(ctx context.Context, request *api.ListNodesRequest) (*api.ListNodesReply, error) {
	_, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListNodesReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		if request.GetName() == "" {
			reply.Nodes = nodeViews(t.Nodes())
			return nil
		}
		n, err := t.Node(request.GetName())
		if err == nil {
			reply.Nodes = nodeViews([]control.NodeNow{n})
		}
		return err
	})
}

// ChangeNode labels, cordons or drains a node.
func (s *clusterService) ChangeNode(ctx context.Context, request *api.ChangeNodeRequest) (*api.Node, error) {
	caller, leader, err := s.administrator(ctx, "change nodes")
	if err != nil {
		return nil, err
	}
	var reply *api.Node
	err = leader.Ask(ctx, func(t control.Turn) error {
		if err := t.ChangeNode(caller.Name, request); err != nil {
			return err
		}
		n, err := t.Node(request.GetName())
		if err == nil {
			reply = nodeView(n)
		}
		return err
	})
	return reply, err
}

// RemoveNode forgets a node.
func (s *clusterService) RemoveNode(ctx context.Context, request *api.RemoveNodeRequest) (*api.RemoveNodeReply, error) {
	caller, leader, err := s.administrator(ctx, "remove nodes")
	if err != nil {
		return nil, err
	}
	return &api.RemoveNodeReply{}, leader.Ask(ctx, func(t control.Turn) error {
		return t.RemoveNode(request.GetName(), caller.Name, request.GetForce())
	})
}

// NewJoinToken returns a token for new nodes.
func (s *clusterService) NewJoinToken(ctx context.Context, request *api.NewJoinTokenRequest) (*api.NewJoinTokenReply, error) {
	caller, _, err := s.administrator(ctx, "make join tokens")
	if err != nil {
		return nil, err
	}
	return s.people.NewJoinToken(ctx, caller, request)
}

// ListUsers returns the users.
func (s *clusterService) ListUsers(ctx context.Context, _ *api.ListUsersRequest) (*api.ListUsersReply, error) {
	if _, _, err := s.administrator(ctx, "list users"); err != nil {
		return nil, err
	}
	return s.people.ListUsers(ctx)
}

// AddUser adds a user, or makes a new token for one.
func (s *clusterService) AddUser(ctx context.Context, request *api.AddUserRequest) (*api.AddUserReply, error) {
	caller, _, err := s.administrator(ctx, "add users")
	if err != nil {
		return nil, err
	}
	return s.people.AddUser(ctx, caller, request)
}

// RemoveUser removes a user.
func (s *clusterService) RemoveUser(ctx context.Context, request *api.RemoveUserRequest) (*api.RemoveUserReply, error) {
	if _, _, err := s.administrator(ctx, "remove users"); err != nil {
		return nil, err
	}
	return &api.RemoveUserReply{}, s.people.RemoveUser(ctx, request.GetName())
}

// ReplaceCA makes a step of replacing the CA, if all nodes have followed the one before.
// Controllers need no look: each has the CAs from the store, and renews its certificate at once.
func (s *clusterService) ReplaceCA(ctx context.Context, request *api.ReplaceCARequest) (*api.ReplaceCAReply, error) {
	_, leader, err := s.administrator(ctx, "replace the CA")
	if err != nil {
		return nil, err
	}
	now, err := s.people.ReplaceCA(ctx, "")
	if err != nil {
		return nil, err
	}
	err = leader.Ask(ctx, func(t control.Turn) error {
		for _, n := range t.Nodes() {
			if isBehind(now, n.Trusts) {
				now.Behind = append(now.Behind, n.Name)
			}
		}
		return nil
	})
	switch {
	case err != nil || request.GetStep() == "":
		return now, err
	case !request.GetForce():
		if text := tooEarly(request.GetStep(), now); text != "" {
			return nil, &api.Error{Text: text, Err: api.ErrRefused}
		}
	}
	return s.people.ReplaceCA(ctx, request.GetStep())
}

// isBehind reports whether a node has not followed the last step. Of one that is away, it is not
// known that it has.
func isBehind(now *api.ReplaceCAReply, node *api.Trusts) bool {
	switch now.GetStep() {
	case "prepared": // the last one is the next to sign
		return !slices.Contains(node.GetTrusted(), now.GetTrusted()[len(now.GetTrusted())-1])
	case "switched":
		return node.GetSigner() != now.GetTrusted()[0]
	}
	return false
}

// maxBehind is how many nodes an error names.
const maxBehind = 20

// tooEarly says why a step is not made; empty: no node is behind.
func tooEarly(step string, now *api.ReplaceCAReply) string {
	count := len(now.GetBehind())
	if count == 0 {
		return ""
	}
	var missing string
	switch {
	case step == "switch" && now.GetStep() == "prepared":
		missing = "not known to trust the next CA"
	case step == "finish" && now.GetStep() == "switched":
		missing = "not known to have a certificate of the new CA"
	default:
		return "" // it waits for no node, or is no next step
	}
	named := slices.Clone(now.GetBehind()[:min(count, maxBehind)])
	if more := count - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s the CA: %s: %s. Wait until phos ca show names no node, or remove them (phos node remove). "+
		"--force makes the step now: then those that have not followed must join again, and what they run is stopped "+
		"unless they do so within fence_after", step, words.Count(count, "node is "+missing, "nodes are "+missing),
		strings.Join(named, ", "))
}
