package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// clusterService is the service about nodes and the cluster itself.
type clusterService struct {
	api.UnimplementedClusterServer
	*Controller
	callers Callers
	people  People
}

// People keeps the users and join tokens of a cluster.
type People interface {
	NewJoinToken(ctx context.Context, by identity.Caller, request *api.NewJoinTokenRequest) (*api.NewJoinTokenReply, error)
	ListUsers(ctx context.Context) (*api.ListUsersReply, error)
	AddUser(ctx context.Context, by identity.Caller, request *api.AddUserRequest) (*api.AddUserReply, error)
	RemoveUser(ctx context.Context, name string) error
}

// asked returns the caller, and the leader.
func (s *clusterService) asked(ctx context.Context) (identity.Caller, *Leader, error) {
	caller, err := s.callers.Of(ctx)
	if err != nil {
		return identity.Caller{}, nil, err
	}
	leader, err := s.leading(ctx)
	return caller, leader, err
}

// administrator returns the leader, if an administrator asks.
func (s *clusterService) administrator(ctx context.Context, what string) (identity.Caller, *Leader, error) {
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
	reply := &api.StatusReply{
		Leader: s.address, Version: s.settings.Version, Scheduler: s.settings.Scheduler, Launches: map[string]uint32{},
		Controllers: []*api.Controller{{Address: s.address, Leads: true, Version: s.settings.Version}},
		Caller:      &api.Caller{Name: caller.Name, Account: caller.Account, Role: string(caller.Role)},
	}
	return reply, leader.ask(ctx, func() error {
		reply.ClusterId, reply.Epoch = leader.cluster.ID, uint64(leader.Epoch())
		reply.Nodes = leader.nodeViews("")
		for _, e := range leader.launches {
			if maySee(caller, e.Owner) {
				reply.Launches[string(e.State.Phase)]++
			}
		}
		return nil
	})
}

// nodeViews returns the nodes by name; all of them if the name is empty.
func (l *Leader) nodeViews(name string) (found []*api.Node) {
	for _, each := range slices.Sorted(maps.Keys(l.nodes)) {
		if name == "" || name == each {
			found = append(found, l.nodeView(l.nodes[each]))
		}
	}
	return found
}

// ListNodes returns the nodes.
func (s *clusterService) ListNodes(ctx context.Context, request *api.ListNodesRequest) (*api.ListNodesReply, error) {
	_, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListNodesReply{}
	return reply, leader.ask(ctx, func() error {
		reply.Nodes = leader.nodeViews(request.GetName())
		if request.GetName() != "" && len(reply.Nodes) == 0 {
			return fmt.Errorf("%w: node %.100q", api.ErrNotFound, request.GetName())
		}
		return nil
	})
}

// ChangeNode labels, cordons or drains a node.
func (s *clusterService) ChangeNode(ctx context.Context, request *api.ChangeNodeRequest) (*api.Node, error) {
	caller, leader, err := s.administrator(ctx, "change nodes")
	if err != nil {
		return nil, err
	}
	var reply *api.Node
	return reply, leader.ask(ctx, func() error {
		n := leader.nodes[request.GetName()]
		if n == nil {
			return fmt.Errorf("%w: node %.100q", api.ErrNotFound, request.GetName())
		}
		if err := leader.changeNode(n, caller.Name, request); err != nil {
			return err
		}
		reply = leader.nodeView(n)
		return nil
	})
}

// maxLabels is how many labels a node may have.
const maxLabels = 100

// changeNode changes what administrators say of a node.
func (l *Leader) changeNode(n *node, by string, request *api.ChangeNodeRequest) error {
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range request.GetSetLabels() {
		if !isLabel(name) || !isLabel(value) {
			return api.Invalid(fmt.Sprintf("label %.80q: want letters, digits and -_. as NAME=VALUE, at most 63 of each", name+"="+value))
		}
		labels[name] = value
	}
	for _, name := range request.GetRemoveLabels() {
		delete(labels, name)
	}
	if len(labels) > maxLabels {
		return api.Invalid(fmt.Sprintf("a node has at most %d labels", maxLabels))
	}
	for _, text := range []string{request.GetCluster(), request.GetShard()} {
		if text != "" && !isLabel(text) {
			return api.Invalid(fmt.Sprintf("%.80q: want letters, digits and -_., at most 63", text))
		}
	}
	n.Labels = labels
	if request.Cluster != nil {
		n.Cluster = request.GetCluster()
	}
	if request.Shard != nil {
		n.Shard = request.GetShard()
	}
	l.changedNodes[n] = struct{}{}
	l.cordon(n, by, request)
	l.tableChanged()
	return nil
}

// isLabel reports whether text is a word for a label.
func isLabel(text string) bool {
	return text != "" && len(text) <= 63 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}

// cordon closes a node to new launches, or opens it; a drain also takes away what it has.
func (l *Leader) cordon(n *node, by string, request *api.ChangeNodeRequest) {
	if request.Cordoned != nil && n.Cordoned != request.GetCordoned() {
		n.Cordoned = request.GetCordoned()
		l.nodeEvent(n, map[bool]string{true: "cordoned", false: "uncordoned"}[n.Cordoned], "by "+by)
		if !n.Cordoned {
			n.Draining = false
		}
	}
	if request.Draining != nil && n.Draining != request.GetDraining() {
		n.Draining = request.GetDraining()
		n.Cordoned = n.Cordoned || n.Draining
		l.nodeEvent(n, map[bool]string{true: "draining", false: "no longer draining"}[n.Draining], "by "+by)
	}
	l.lookAtLease(n)
	if n.Draining {
		l.drain(n)
	}
}

// drain takes away what a node has: launches are saved, or started again elsewhere if they may be.
func (l *Leader) drain(n *node) {
	for _, e := range n.entries() {
		if err := l.giveWay(e, launch.Preempted{Reason: "node " + n.Name + " is drained"}); err != nil {
			l.event(e, "not drained", err.Error())
			l.nodeEvent(n, "not drained", err.Error())
		}
	}
}

// RemoveNode forgets a node.
func (s *clusterService) RemoveNode(ctx context.Context, request *api.RemoveNodeRequest) (*api.RemoveNodeReply, error) {
	caller, leader, err := s.administrator(ctx, "remove nodes")
	if err != nil {
		return nil, err
	}
	return &api.RemoveNodeReply{}, leader.ask(ctx, func() error {
		n := leader.nodes[request.GetName()]
		switch {
		case n == nil:
			return fmt.Errorf("%w: node %.100q", api.ErrNotFound, request.GetName())
		case len(n.live) > 0 && !request.GetForce():
			return fmt.Errorf("%w: launches run on node %s: drain it first, or say with --force that the machine is off",
				api.ErrRefused, n.Name)
		}
		leader.removeNode(n, caller.Name)
		return nil
	})
}

// removeNode forgets a node. The caller says that nothing of its launches runs there.
func (l *Leader) removeNode(n *node, by string) {
	l.log.Info("node removed", "node", n.Name, "by", by)
	l.giveUp(n, "removed by "+by)
	if n.session != nil {
		n.session.end(ErrNodeUnknown)
	}
	delete(l.nodes, n.Name)
	delete(l.changedNodes, n)
	if n.introduced {
		l.nodeNames[n.id] = ""
	}
	l.removed = append(l.removed, n)
	l.tableChanged()
}

// AddNode makes a machine a node of the cluster. Key is the fingerprint of its certificate.
func (l *Leader) AddNode(ctx context.Context, joined record.Node) error {
	return l.ask(ctx, func() error { return l.addNode(joined) })
}

// addNode makes a machine a node. A name that is taken is refused, whatever has become of that
// node: a token for joining is no right to replace a node.
func (l *Leader) addNode(joined record.Node) error {
	if l.nodes[joined.Name] != nil {
		return fmt.Errorf("%w: there is a node %s: choose another name, or remove that one first (phos node remove %s)",
			api.ErrRefused, joined.Name, joined.Name)
	}
	joined.Joined = l.clock.wall()
	n := &node{Node: joined, revision: store.New, renewed: l.clock.boot()}
	l.nodes[joined.Name] = n
	l.nodeEvent(n, "joined", "")
	return nil
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
