package members

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestNewCluster: controllers that begin at once make one cluster with one CA; a later one finds it
// again.
func TestNewCluster(t *testing.T) {
	objects := servertest.Store(t)
	found := make([]*Members, 8)
	var begin sync.WaitGroup
	for i := range found {
		begin.Go(func() {
			var err error
			settings := Settings{Self: record.Controller{Name: fmt.Sprint("c", i), Address: "c:1"}}
			if found[i], err = Open(t.Context(), objects, settings); err != nil {
				t.Error(err)
			}
		})
	}
	begin.Wait()
	if t.Failed() {
		return
	}
	for _, m := range append(found, open(t, objects, "later")) {
		if m.Cluster() != found[0].Cluster() || m.CA() != found[0].CA() || !bytes.Equal(m.Bundle(), found[0].Bundle()) {
			t.Errorf("cluster %s with CA %s, and %s with %s", m.Cluster(), m.CA(), found[0].Cluster(), found[0].CA())
		}
	}
	if other := open(t, servertest.Store(t), "c0"); other.Cluster() == found[0].Cluster() || other.CA() == found[0].CA() {
		t.Error("another store has the same cluster")
	}
}

// TestDamagedCluster: a record that cannot be read is an error, and is not written over.
func TestDamagedCluster(t *testing.T) {
	for _, key := range []string{record.ClusterKey, record.CAKey} {
		objects := servertest.Store(t)
		if _, err := objects.Put(t.Context(), store.Write{Key: key, Value: []byte("{")}); err != nil {
			t.Fatal(err)
		}
		if m, err := Open(t.Context(), objects, Settings{Self: record.Controller{Name: "c", Address: "c:1"}}); err == nil {
			t.Errorf("%s is damaged: %v", key, m)
		}
		if kept, err := objects.Get(t.Context(), key); err != nil || string(kept.Value) != "{" {
			t.Errorf("%s has become %q, %v", key, kept.Value, err)
		}
	}
}

// TestControllers: each controller is known by what it has said last. A list of peers removes those
// that are none.
func TestControllers(t *testing.T) {
	objects := servertest.Store(t)
	addresses := func(m *Members, want ...string) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("the controllers are %q", want), func() bool {
			return slices.Equal(m.About().GetControllers(), want)
		})
	}
	b := open(t, objects, "b")
	addresses(b, "b:7411")
	a := open(t, objects, "a")
	addresses(a, "a:7411", "b:7411")
	addresses(b, "a:7411", "b:7411")
	moved := record.Controller{Name: "b", Address: "elsewhere:7411", Version: "2"}
	if _, err := Open(t.Context(), objects, Settings{Self: moved}); err != nil {
		t.Fatal(err)
	}
	addresses(a, "a:7411", "elsewhere:7411")
	if all, err := a.Controllers(t.Context()); err != nil || len(all) != 2 || all[1] != moved {
		t.Errorf("the controllers are %+v, %v", all, err)
	}
	c := open(t, objects, "c", "a", "c") // b is no longer one of them
	addresses(c, "a:7411", "c:7411")
	open(t, objects, "a", "a") // nor is c, but it still runs and knows itself
	addresses(c, "a:7411", "c:7411")
	addresses(a, "a:7411")
	if _, err := objects.Put(t.Context(), store.Write{Key: record.ControllerKey("d"), Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	damaged := open(t, objects, "c", "a", "c", "d")
	addresses(damaged, "a:7411", "c:7411")
	if _, err := damaged.Controllers(t.Context()); err == nil {
		t.Error("a damaged record is not named")
	}
	if err := objects.Close(); err != nil {
		t.Fatal(err)
	}
	addresses(c, "a:7411", "c:7411") // the last that it has learned
}

// TestJoin: a token makes as many nodes as it says. Their certificates prove the names that they
// have asked for.
func TestJoin(t *testing.T) {
	w := newWorld(t)
	made := w.joinToken(2)
	for _, name := range []string{"n1", "n2"} {
		reply, err := w.join(made, name)
		if err != nil {
			t.Fatal(err)
		}
		c := caller(t, reply.GetCertificate(), reply.GetBundle())
		if c.Kind != identity.Node || c.Name != name || reply.GetClusterId() != string(w.Cluster()) ||
			!slices.Equal(reply.GetControllers(), []string{"c1:7411"}) {
			t.Errorf("%s has joined as %v: %v", name, c, reply)
		}
		object, err := w.objects.Get(t.Context(), record.NodeKey(name))
		if err != nil {
			t.Fatal(err)
		}
		if node, err := record.DecodeNode(object.Value); err != nil || node.Key != c.Key.String() || node.BootID != "boot 1" {
			t.Errorf("the record is %+v, %v", node, err)
		}
	}
	if _, err := w.join(made, "n3"); !errors.Is(err, api.ErrNotPermitted) || !strings.Contains(err.Error(), "used up") {
		t.Errorf("a third node by a token for two: %v", err)
	}
	if _, err := w.join(w.joinToken(1), "n1"); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a name that is taken: %v", err)
	}
}

// TestJoinRefused: what is wrong with a request to join leaves no node and uses nothing up.
func TestJoinRefused(t *testing.T) {
	w := newWorld(t)
	made, other := w.joinToken(1), newWorld(t)
	for name, test := range map[string]struct {
		token, node string
		csr         []byte
		want        error
	}{
		"no token":                {"", "n1", w.request("n1", w.key()), api.ErrInvalid},
		"mistyped":                {made[1:], "n1", w.request("n1", w.key()), api.ErrInvalid},
		"of another cluster":      {other.joinToken(1), "n1", w.request("n1", w.key()), api.ErrNotPermitted},
		"a name that is a path":   {made, "../n1", w.request("n1", w.key()), api.ErrNotPermitted},
		"no name":                 {made, "", w.request("n1", w.key()), api.ErrNotPermitted},
		"a request of other name": {w.joinToken(1), "n1", w.request("n2", w.key()), api.ErrInvalid},
		"of other cluster's node": {w.joinToken(1), "n1", other.request("n1", w.key()), api.ErrInvalid},
		"no request":              {w.joinToken(1), "n1", nil, api.ErrInvalid},
	} {
		request := &api.JoinRequest{Token: test.token, Name: test.node, Csr: test.csr}
		if reply, err := w.Join(t.Context(), w.leader, request); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, reply, err, test.want)
		}
	}
	nodes, _, err := w.objects.List(t.Context(), record.NodePrefix)
	if err != nil || len(nodes) != 0 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	if _, err := w.join(made, "n1"); err != nil {
		t.Errorf("the token for one node: %v", err)
	}
}

// TestJoinAtOnce: a token is not used more often than it says, though many nodes come at once.
func TestJoinAtOnce(t *testing.T) {
	w := newWorld(t)
	made := w.joinToken(3)
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = w.join(made, fmt.Sprint("n", i)) })
	}
	all.Wait()
	joined := 0
	for _, err := range errs {
		if err == nil {
			joined++
		} else if !errors.Is(err, api.ErrNotPermitted) {
			t.Error(err)
		}
	}
	nodes, _, err := w.objects.List(t.Context(), record.NodePrefix)
	if err != nil || joined != 3 || len(nodes) != 3 {
		t.Errorf("%d have joined, and there are %d nodes, %v", joined, len(nodes), err)
	}
}

// TestJoinToken: a token says by which CA and where its node finds the controllers, and how long it
// lasts.
func TestJoinToken(t *testing.T) {
	objects := servertest.Store(t)
	m := open(t, objects, "c1")
	open(t, objects, "c2")
	harness.Eventually(t, "c1 knows c2", func() bool { return len(m.Addresses()) == 2 })
	for seconds, want := range map[uint64]time.Duration{0: 24 * time.Hour, 90: 90 * time.Second} {
		before := time.Now().Truncate(time.Second)
		made, err := m.NewJoinToken(t.Context(), admin, &api.NewJoinTokenRequest{ValidSeconds: seconds})
		after := time.Now().Add(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		read, err := token.ParseJoin(made.GetToken(), time.Now())
		if err != nil || read.CA.String() != m.CA() || !slices.Equal(read.Addresses, []string{"c1:7411", "c2:7411"}) {
			t.Errorf("the token is %+v, %v", read, err)
		}
		if read.Expires.Before(before.Add(want)) || read.Expires.After(after.Add(want)) ||
			read.Expires.UnixMilli() != made.GetExpiresUnixMs() {
			t.Errorf("valid for %d s, it ends at %v and %d", seconds, read.Expires, made.GetExpiresUnixMs())
		}
		object, err := objects.Get(t.Context(), record.JoinTokenKey(read.ID))
		if secret := fmt.Sprintf("%x", read.Secret[:]); err != nil || strings.Contains(string(object.Value), secret) {
			t.Errorf("the store has %s, %v", object.Value, err)
		}
	}
	for name, request := range map[string]*api.NewJoinTokenRequest{
		"too many uses": {Uses: 1 << 31}, "too long": {ValidSeconds: 1 << 32}, "overflow": {ValidSeconds: 1 << 62},
	} {
		if made, err := m.NewJoinToken(t.Context(), admin, request); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, made, err)
		}
	}
}

// TestRenew: a node gets its next certificate for its name and its present key, and nothing else.
func TestRenew(t *testing.T) {
	w := newWorld(t)
	key := w.key()
	joined, err := w.Join(t.Context(), w.leader, &api.JoinRequest{
		Token: w.joinToken(1), Name: "n1", Csr: w.request("n1", key),
	})
	if err != nil {
		t.Fatal(err)
	}
	node := caller(t, joined.GetCertificate(), joined.GetBundle())
	issued := w.Renew(node, w.request("n1", key))
	if issued.GetError() != "" {
		t.Fatal(issued.GetError())
	}
	if next := caller(t, issued.GetCertificate(), issued.GetBundle()); next != node || bytes.Equal(issued.GetCertificate(), joined.GetCertificate()) {
		t.Errorf("renewed as %v, was %v", next, node)
	}
	user := identity.Caller{Kind: identity.User, Name: "n1", Account: "n1", Role: identity.RoleUser, Key: node.Key}
	for name, issued := range map[string]*api.Issued{
		"another key":  w.Renew(node, w.request("n1", w.key())),
		"another name": w.Renew(node, w.request("n2", key)),
		"no request":   w.Renew(node, nil),
		"a user":       w.Renew(user, w.request("n1", key)),
		"no caller":    w.Renew(identity.Caller{}, w.request("n1", key)),
	} {
		if issued.GetError() == "" || issued.GetCertificate() != nil {
			t.Errorf("%s: %v", name, issued)
		}
	}
}
