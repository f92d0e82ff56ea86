package members

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"log/slog"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/tests/harness"
)

// admin is the caller that makes tokens.
var admin = identity.Caller{Kind: identity.Local, Name: "root", Account: "root", Role: identity.RoleAdmin}

// open returns the members that a controller of a name serves.
func open(t *testing.T, objects store.Store, name string, peers ...string) *Members {
	t.Helper()
	m, err := Open(t.Context(), objects, Settings{
		Self: record.Controller{Name: name, Address: name + ":7411"}, Peers: peers, NodeLife: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Follow(t.Context())
	return m
}

// world is a new cluster with a controller that leads.
type world struct {
	*testing.T
	*Members
	objects store.Store
	leader  *control.Leader
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, objects: servertest.Store(t)}
	w.Members = open(t, w.objects, "c1")
	settings := control.Settings{
		Policies: func() (scheduler.Policies, error) {
			return scheduler.Policies{Order: order.Priority{}, Place: place.BestFit{}}, nil
		},
		Placement: "best-fit",
		Times:     control.Times{Lease: time.Minute, FenceAfter: 2 * time.Minute, Margin: time.Second, Grace: time.Second},
	}
	controller := control.NewController(w.objects, settings, "c1:7411", slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	harness.Eventually(t, "the controller leads", func() bool {
		w.leader, _ = controller.Leading(t.Context())
		return w.leader != nil
	})
	return w
}

// key returns a new key.
func (w *world) key() *ecdsa.PrivateKey {
	w.Helper()
	key, err := authority.NewKey()
	if err != nil {
		w.Fatal(err)
	}
	return key
}

// request returns the request of a node for a certificate.
func (w *world) request(name string, key *ecdsa.PrivateKey) []byte {
	w.Helper()
	request, err := authority.NewRequest(identity.Subject{Cluster: w.Cluster(), Kind: identity.Node, Name: name}, key)
	if err != nil {
		w.Fatal(err)
	}
	return request
}

// joinToken returns a token for so many nodes.
func (w *world) joinToken(uses uint32) string {
	w.Helper()
	made, err := w.NewJoinToken(w.Context(), admin, &api.NewJoinTokenRequest{Uses: uses})
	if err != nil {
		w.Fatal(err)
	}
	return made.GetToken()
}

// join makes a node of a name by a token.
func (w *world) join(token, name string) (*api.JoinReply, error) {
	w.Helper()
	return w.Join(w.Context(), w.leader, &api.JoinRequest{
		Token: token, Name: name, Csr: w.request(name, w.key()), BootId: "boot 1",
	})
}

// caller returns what a certificate proves, by the bundle that came with it.
func caller(t *testing.T, certificate, bundle []byte) identity.Caller {
	t.Helper()
	trusted, err := authority.ParseBundle(bundle)
	if err != nil {
		t.Fatal(err)
	}
	read, err := x509.ParseCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	c, err := trusted.VerifyClient([]*x509.Certificate{read}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}
