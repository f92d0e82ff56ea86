package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
)

// clusterService implements api.ClusterServer.
type clusterService struct {
	api.UnimplementedClusterServer
	cluster *Cluster
}

// Status returns the cluster at a glance.
func (s *clusterService) Status(context.Context, *api.StatusRequest) (*api.StatusReply, error) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	reply := &api.StatusReply{
		ClusterId: "c-1", Version: "1.0", Leader: "a:7411", Epoch: 3, Scheduler: "order priority", Launches: map[string]uint32{},
		Controllers: []*api.Controller{{Name: "a", Address: "a:7411", Leads: true, Version: "1.0"}},
		Caller:      &api.Caller{Name: s.cluster.Owner, Account: s.cluster.Owner, Role: "admin"},
	}
	for _, each := range s.cluster.Nodes {
		reply.Nodes = append(reply.Nodes, proto.CloneOf(each))
	}
	for _, e := range s.cluster.launches {
		reply.Launches[e.view.GetPhase()]++
	}
	return reply, nil
}

// ListNodes returns the nodes.
func (s *clusterService) ListNodes(_ context.Context, request *api.ListNodesRequest) (*api.ListNodesReply, error) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	reply := &api.ListNodesReply{}
	for _, each := range s.cluster.Nodes {
		if request.GetName() == "" || request.GetName() == each.GetName() {
			reply.Nodes = append(reply.Nodes, proto.CloneOf(each))
		}
	}
	if request.GetName() != "" && len(reply.Nodes) == 0 {
		return nil, fmt.Errorf("node %q: %w", request.GetName(), api.ErrNotFound)
	}
	return reply, nil
}

// ChangeNode labels, cordons or drains a node.
func (s *clusterService) ChangeNode(_ context.Context, request *api.ChangeNodeRequest) (reply *api.Node, err error) {
	s.cluster.Change(func() {
		at := slices.IndexFunc(s.cluster.Nodes, func(n *api.Node) bool { return n.GetName() == request.GetName() })
		if at < 0 {
			err = fmt.Errorf("node %q: %w", request.GetName(), api.ErrNotFound)
			return
		}
		n := s.cluster.Nodes[at]
		if request.Cordoned != nil {
			n.Cordoned = request.GetCordoned()
		}
		if request.Draining != nil {
			n.Draining = request.GetDraining()
			n.Cordoned = n.Cordoned || n.Draining
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		maps.Copy(n.Labels, request.GetSetLabels())
		for _, name := range request.GetRemoveLabels() {
			delete(n.Labels, name)
		}
		reply = proto.CloneOf(n)
	})
	return reply, err
}

// RemoveNode forgets a node.
func (s *clusterService) RemoveNode(_ context.Context, request *api.RemoveNodeRequest) (*api.RemoveNodeReply, error) {
	var err error
	s.cluster.Change(func() {
		at := slices.IndexFunc(s.cluster.Nodes, func(n *api.Node) bool { return n.GetName() == request.GetName() })
		switch {
		case at < 0:
			err = fmt.Errorf("node %q: %w", request.GetName(), api.ErrNotFound)
		case len(s.cluster.Nodes[at].GetLaunches()) > 0 && !request.GetForce():
			err = fmt.Errorf("%w: launches run on node %s", api.ErrRefused, request.GetName())
		default:
			s.cluster.Nodes = slices.Delete(s.cluster.Nodes, at, at+1)
		}
	})
	return &api.RemoveNodeReply{}, err
}

// NewJoinToken returns a token that no agent takes.
func (s *clusterService) NewJoinToken(
	_ context.Context, request *api.NewJoinTokenRequest,
) (*api.NewJoinTokenReply, error) {
	expires := int64(submitted + 1000*request.GetValidSeconds())
	return &api.NewJoinTokenReply{Token: "phosjoin_1test@a:7411", ExpiresUnixMs: expires}, nil
}

// ListUsers returns the users.
func (s *clusterService) ListUsers(context.Context, *api.ListUsersRequest) (*api.ListUsersReply, error) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return &api.ListUsersReply{Users: slices.Clone(s.cluster.Users)}, nil
}

// AddUser adds a user, or makes a new token.
func (s *clusterService) AddUser(_ context.Context, request *api.AddUserRequest) (*api.AddUserReply, error) {
	reply := &api.AddUserReply{User: request.GetUser(), Token: "phos_1test"}
	var err error
	s.cluster.Change(func() {
		at := slices.IndexFunc(s.cluster.Users, func(u *api.User) bool { return u.GetName() == request.GetUser().GetName() })
		switch {
		case at < 0 && request.GetTokenOnly():
			err = fmt.Errorf("user %q: %w", request.GetUser().GetName(), api.ErrNotFound)
		case at < 0:
			s.cluster.Users = append(s.cluster.Users, request.GetUser())
		case !request.GetTokenOnly():
			err = fmt.Errorf("%w: there is a user %q already", api.ErrRefused, request.GetUser().GetName())
		default:
			reply.User = s.cluster.Users[at]
		}
	})
	return reply, err
}

// RemoveUser removes a user.
func (s *clusterService) RemoveUser(_ context.Context, request *api.RemoveUserRequest) (*api.RemoveUserReply, error) {
	var err error
	s.cluster.Change(func() {
		before := len(s.cluster.Users)
		s.cluster.Users = slices.DeleteFunc(s.cluster.Users, func(u *api.User) bool { return u.GetName() == request.GetName() })
		if len(s.cluster.Users) == before {
			err = fmt.Errorf("user %q: %w", request.GetName(), api.ErrNotFound)
		}
	})
	return &api.RemoveUserReply{}, err
}
