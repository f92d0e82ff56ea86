package members

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// Members are the CA, the tokens and the callers of a cluster.
type Members struct {
	store store.Store
	id    identity.ClusterID
	// settings say which controller serves these members.
	settings Settings

	mu        sync.Mutex // guards what follows
	addresses []string   // of the controllers
	ring      authority.Ring
	// replaced is closed when there is another ring.
	replaced chan struct{}
}

// Settings are what a controller is told about members.
type Settings struct {
	// Self is the controller, and Peers are the names of all; none: they are not known.
	Self  record.Controller
	Peers []string
	// NodeLife is how long certificates of nodes are valid.
	NodeLife time.Duration
}

// Open returns the members of the cluster in a store, for one of its controllers. An empty store
// becomes a new cluster. Follow keeps them up to date.
func Open(ctx context.Context, objects store.Store, settings Settings) (*Members, error) {
	cluster, err := openCluster(ctx, objects)
	if err != nil {
		return nil, fmt.Errorf("open the cluster: %w", err)
	}
	m := &Members{
		store: objects, id: identity.ClusterID(cluster.ID), settings: settings, replaced: make(chan struct{}),
	}
	if m.ring, err = openRing(ctx, objects, m.id); err != nil {
		return nil, fmt.Errorf("open the cluster's CA: %w", err)
	}
	if err := register(ctx, objects, settings.Self, settings.Peers); err != nil {
		return nil, err
	}
	controllers, _, err := objects.List(ctx, record.ControllerPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the controllers: %w", err)
	}
	m.takeControllers(controllers)
	return m, nil
}

// openCluster reads the record of the cluster, or makes one.
func openCluster(ctx context.Context, objects store.Store) (record.Cluster, error) {
	object, err := objects.Get(ctx, record.ClusterKey)
	if err == nil {
		return record.DecodeCluster(object.Value)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return record.Cluster{}, err
	}
	id, err := identity.NewClusterID(rand.Reader)
	if err != nil {
		return record.Cluster{}, err
	}
	made := record.Cluster{ID: string(id), Created: time.Now().UTC().Truncate(time.Second)}
	_, err = objects.Put(ctx, store.Write{Key: record.ClusterKey, Value: made.Encode(), Replaces: store.New})
	if errors.Is(err, store.ErrConflict) { // another controller was faster
		return openCluster(ctx, objects)
	}
	return made, err
}

// openRing reads the CA, or makes one.
func openRing(ctx context.Context, objects store.Store, id identity.ClusterID) (authority.Ring, error) {
	object, err := objects.Get(ctx, record.CAKey)
	if err == nil {
		return authority.UnmarshalRing(object.Value)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return authority.Ring{}, err
	}
	ring, err := authority.NewRing(id, time.Now())
	if err != nil {
		return authority.Ring{}, err
	}
	text, err := ring.Marshal()
	if err != nil {
		return authority.Ring{}, err
	}
	_, err = objects.Put(ctx, store.Write{Key: record.CAKey, Value: text, Replaces: store.New})
	if errors.Is(err, store.ErrConflict) {
		return openRing(ctx, objects, id)
	}
	return ring, err
}

// Cluster returns the cluster's id.
func (m *Members) Cluster() identity.ClusterID { return m.id }

// About says which cluster this is, and how it is known.
func (m *Members) About() *api.AboutReply {
	return &api.AboutReply{ClusterId: string(m.id), Bundle: m.Ring().Bundle().PEM(), Controllers: m.Addresses()}
}

// Bundle is the CAs that nodes trust, as PEM.
func (m *Members) Bundle() []byte { return m.Ring().Bundle().PEM() }

// CA returns the fingerprint of the CA that signs now.
func (m *Members) CA() string { return m.Ring().Signer().Fingerprint().String() }

// Ring returns the CA.
func (m *Members) Ring() authority.Ring {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ring
}

// maxSeconds is the most seconds that a duration can have.
const maxSeconds = uint64(math.MaxInt64 / time.Second)

// NewJoinToken returns a token for new nodes.
func (m *Members) NewJoinToken(
	ctx context.Context, by identity.Caller, request *api.NewJoinTokenRequest,
) (*api.NewJoinTokenReply, error) {
	valid := time.Duration(min(request.GetValidSeconds(), maxSeconds)) * time.Second
	if valid == 0 {
		valid = 24 * time.Hour
	}
	made, kept, err := token.NewJoin(rand.Reader, time.Now(), by, token.JoinSpec{
		CA: m.Ring().Signer().Fingerprint(), Addresses: m.Addresses(), Lifetime: valid, Uses: int(max(1, request.GetUses())),
	})
	if err != nil {
		return nil, api.Invalid(err.Error())
	}
	text, err := kept.Marshal()
	if err != nil {
		return nil, err
	}
	if _, err := m.store.Put(ctx, store.Write{Key: record.JoinTokenKey(made.ID), Value: text, Replaces: store.New}); err != nil {
		return nil, fmt.Errorf("keep the token: %w", err)
	}
	return &api.NewJoinTokenReply{Token: made.Text(), ExpiresUnixMs: made.Expires.UnixMilli()}, nil
}

// Join makes a machine with a join token a node, and signs its certificate.
func (m *Members) Join(ctx context.Context, leader *control.Leader, request *api.JoinRequest) (*api.JoinReply, error) {
	presented, err := token.ParseJoin(request.GetToken(), time.Now())
	if err != nil {
		return nil, api.Invalid(err.Error())
	}
	kept, err := m.useToken(ctx, presented, request.GetName())
	if err != nil {
		return nil, err
	}
	signed, err := m.Ring().Signer().IssueNode(request.GetCsr(), request.GetName(), time.Now(), m.settings.NodeLife)
	if err != nil {
		return nil, api.Invalid(err.Error())
	}
	err = leader.AddNode(ctx, record.Node{
		Name: request.GetName(), BootID: request.GetBootId(), Labels: kept.Labels, Key: identity.FingerprintOf(signed).String(),
	})
	if err != nil {
		return nil, err
	}
	return &api.JoinReply{
		Certificate: signed.Raw, Bundle: m.Ring().Bundle().PEM(), ClusterId: string(m.id), Controllers: m.Addresses(),
	}, nil
}

// useToken checks a token, and counts the use. The name is checked with it, so that a wrong name
// uses nothing up.
func (m *Members) useToken(ctx context.Context, presented token.Join, name string) (token.JoinRecord, error) {
	for {
		object, err := m.store.Get(ctx, record.JoinTokenKey(presented.ID))
		if errors.Is(err, store.ErrNotFound) {
			return token.JoinRecord{}, &api.Error{Text: token.ErrRefused.Error(), Err: api.ErrNotPermitted}
		}
		if err != nil {
			return token.JoinRecord{}, err
		}
		kept, err := token.UnmarshalJoin(object.Value)
		if err != nil {
			return token.JoinRecord{}, err
		}
		if err := kept.Verify(presented.Secret, name, time.Now()); err != nil {
			return token.JoinRecord{}, &api.Error{Text: err.Error(), Err: api.ErrNotPermitted}
		}
		text, err := kept.Used().Marshal()
		if err != nil {
			return token.JoinRecord{}, err
		}
		_, err = m.store.Put(ctx, store.Write{Key: object.Key, Value: text, Replaces: object.Revision})
		if !errors.Is(err, store.ErrConflict) {
			return kept, err
		}
	}
}

// users returns the records of users' tokens, by their ids.
func (m *Members) users(ctx context.Context) (map[string]token.UserRecord, error) {
	objects, _, err := m.store.List(ctx, record.UserTokenPrefix)
	if err != nil {
		return nil, err
	}
	found := make(map[string]token.UserRecord, len(objects))
	for _, object := range objects {
		kept, err := token.UnmarshalUser(object.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.Key, err)
		}
		found[strings.TrimPrefix(object.Key, record.UserTokenPrefix)] = kept
	}
	return found, nil
}

// ListUsers returns the users with tokens, by name.
func (m *Members) ListUsers(ctx context.Context) (*api.ListUsersReply, error) {
	kept, err := m.users(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListUsersReply{}
	for _, each := range kept {
		reply.Users = append(reply.Users, userView(each))
	}
	slices.SortFunc(reply.Users, func(a, b *api.User) int { return strings.Compare(a.GetName(), b.GetName()) })
	return reply, nil
}

// userView returns a user for people.
func userView(r token.UserRecord) *api.User {
	v := &api.User{
		Name: r.Name, Account: r.Account, Role: string(r.Role), AllowRoot: r.AllowRoot, CreatedUnixMs: r.Made.UnixMilli(),
	}
	if !r.Expires.IsZero() {
		v.ExpiresUnixMs = r.Expires.UnixMilli()
	}
	return v
}
