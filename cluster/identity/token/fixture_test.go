package token

import (
	"bytes"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

var (
	// now is when all tokens of these tests are made.
	now = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

	admin  = identity.Caller{Kind: identity.User, Name: "ops", Account: "carol", Role: identity.RoleAdmin}
	local  = identity.Caller{Kind: identity.Local, Name: "alice", Account: "alice", Role: identity.RoleUser}
	remote = identity.Caller{Kind: identity.User, Name: "laptop", Account: "alice", Role: identity.RoleUser}
	viewer = identity.Caller{Kind: identity.User, Name: "wall", Account: "alice", Role: identity.RoleViewer}
	node   = identity.Caller{Kind: identity.Node, Name: "gpu1"}
)

// counting is no randomness: the bytes 0, 1, 2, ...
func counting() *bytes.Reader {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return bytes.NewReader(all)
}

// joinSpec is a spec with everything in it.
func joinSpec() JoinSpec {
	return JoinSpec{
		Addresses: []string{"c1.example.org:7443", "[2001:db8::1]:7443"},
		CA:        identity.Fingerprint{0: 0xca, 31: 0xfe},
		Lifetime:  time.Hour,
		Uses:      2,
		Labels:    map[string]string{"rack": "r7"},
	}
}

func newJoin(t testing.TB, spec JoinSpec) (Join, JoinRecord) {
	t.Helper()
	j, r, err := NewJoin(counting(), now, admin, spec)
	if err != nil {
		t.Fatal(err)
	}
	return j, r
}

func newUser(t testing.TB) (User, UserRecord) {
	t.Helper()
	u, r, err := NewUser(counting(), now, admin, UserSpec{
		Name: "laptop", Account: "alice", Role: identity.RoleUser, Lifetime: 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return u, r
}
