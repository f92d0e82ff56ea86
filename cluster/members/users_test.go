package members

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// who returns the caller of a request by TLS with these Authorization headers.
func who(t *testing.T, m *Members, headers ...string) (identity.Caller, error) {
	t.Helper()
	ctx := Browsers{Members: m}.Token(t.Context(), "")
	pairs := metadata.MD{"authorization": headers}
	return m.Of(metadata.NewIncomingContext(ctx, pairs))
}

// unknown checks that a request has no caller.
func unknown(t *testing.T, m *Members, headers ...string) {
	t.Helper()
	if c, err := who(t, m, headers...); !errors.Is(err, api.ErrUnknownCaller) || c != (identity.Caller{}) {
		t.Errorf("a request with %q is of %v, %v", headers, c, err)
	}
}

// add makes a token for a user.
func add(t *testing.T, m *Members, request *api.AddUserRequest) string {
	t.Helper()
	reply, err := m.AddUser(t.Context(), admin, request)
	if err != nil {
		t.Fatal(err)
	}
	return reply.GetToken()
}

// TestUser: a token stands for the user that it was made for, with the account and the role that
// were asked for, or with the user's own account and the least role.
func TestUser(t *testing.T) {
	m := open(t, servertest.Store(t), "c1")
	for _, test := range []struct {
		user *api.User
		want identity.Caller
	}{
		{
			&api.User{Name: "ada"},
			identity.Caller{Kind: identity.User, Name: "ada", Account: "ada", Role: identity.RoleUser},
		},
		{
			&api.User{Name: "ci", Account: "build", Role: "viewer", ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli()},
			identity.Caller{Kind: identity.User, Name: "ci", Account: "build", Role: identity.RoleViewer},
		},
		{
			&api.User{Name: "ops", Account: "root", Role: "admin", AllowRoot: true},
			identity.Caller{Kind: identity.User, Name: "ops", Account: "root", Role: identity.RoleAdmin, AllowRoot: true},
		},
	} {
		reply, err := m.AddUser(t.Context(), admin, &api.AddUserRequest{User: test.user})
		if err != nil {
			t.Fatal(err)
		}
		if reply.GetCa() != m.CA() || !slices.Equal(reply.GetControllers(), []string{"c1:7411"}) {
			t.Errorf("the user finds the cluster at %q, with CA %s", reply.GetControllers(), reply.GetCa())
		}
		if c, err := who(t, m, "Bearer "+reply.GetToken()); err != nil || c != test.want {
			t.Errorf("the caller is %+v, %v; want %+v", c, err, test.want)
		}
		if c, err := m.Of((Browsers{Members: m}).Token(t.Context(), reply.GetToken())); err != nil || c != test.want {
			t.Errorf("the browser is %+v, %v; want %+v", c, err, test.want)
		}
	}
	list, err := m.ListUsers(t.Context())
	if err != nil || len(list.GetUsers()) != 3 {
		t.Fatal(list, err)
	}
	for i, name := range []string{"ada", "ci", "ops"} {
		user := list.GetUsers()[i]
		if user.GetName() != name || (user.GetExpiresUnixMs() != 0) != (name == "ci") || user.GetCreatedUnixMs() == 0 {
			t.Errorf("user %d of the list is %v", i, user)
		}
	}
}

// TestNoUser: no other text is a token, and nothing of the request says who calls.
func TestNoUser(t *testing.T) {
	objects := servertest.Store(t)
	m, other := open(t, objects, "c1"), open(t, servertest.Store(t), "c1")
	good := add(t, m, &api.AddUserRequest{User: &api.User{Name: "ada"}})
	forged, err := token.ParseUser(good)
	if err != nil {
		t.Fatal(err)
	}
	forged.Secret[0]++
	unknown(t, m)
	for _, header := range []string{
		"", "Bearer", "Bearer ", good, "Basic " + good, "Bearer ada", forged.Bearer(),
		"Bearer " + add(t, other, &api.AddUserRequest{User: &api.User{Name: "ada"}}),
	} {
		unknown(t, m, header)
	}
	unknown(t, m, "Bearer "+good, "Bearer "+good)
	if c, err := m.Of(t.Context()); !errors.Is(err, api.ErrUnknownCaller) {
		t.Errorf("a request from nowhere is of %v, %v", c, err)
	}
	if err := objects.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := who(t, m, "Bearer "+good); err == nil || errors.Is(err, api.ErrUnknownCaller) {
		t.Errorf("while the store does not answer, it is %v, %v", c, err)
	}
}

// TestNextToken: a user's next token has the rights of the one before, which is worth nothing then.
func TestNextToken(t *testing.T) {
	m := open(t, servertest.Store(t), "c1")
	ada := &api.User{Name: "ada", Account: "lovelace", Role: "viewer"}
	first := add(t, m, &api.AddUserRequest{User: ada})
	bob := add(t, m, &api.AddUserRequest{User: &api.User{Name: "bob"}})
	before, err := who(t, m, "Bearer "+first)
	if err != nil {
		t.Fatal(err)
	}
	// What else the request says is not asked for: a token is no way to other rights.
	next := add(t, m, &api.AddUserRequest{TokenOnly: true, User: &api.User{Name: "ada", Account: "root", Role: "admin", AllowRoot: true}})
	if after, err := who(t, m, "Bearer "+next); err != nil || after != before {
		t.Errorf("the next token is of %+v, %v; the first was of %+v", after, err, before)
	}
	unknown(t, m, "Bearer "+first)
	if _, err := who(t, m, "Bearer "+bob); err != nil {
		t.Errorf("bob's token: %v", err)
	}
	for name, test := range map[string]struct {
		request *api.AddUserRequest
		want    error
	}{
		"a second ada":         {&api.AddUserRequest{User: ada}, api.ErrRefused},
		"the next of no user":  {&api.AddUserRequest{TokenOnly: true, User: &api.User{Name: "eve"}}, api.ErrNotFound},
		"no name":              {&api.AddUserRequest{User: &api.User{}}, api.ErrInvalid},
		"an account of a path": {&api.AddUserRequest{User: &api.User{Name: "eve", Account: "../eve"}}, api.ErrInvalid},
		"no role":              {&api.AddUserRequest{User: &api.User{Name: "eve", Role: "king"}}, api.ErrInvalid},
		"has ended": {
			&api.AddUserRequest{User: &api.User{Name: "eve", ExpiresUnixMs: time.Now().Add(-time.Hour).UnixMilli()}}, api.ErrInvalid,
		},
	} {
		if reply, err := m.AddUser(t.Context(), admin, test.request); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, reply, err, test.want)
		}
	}
	if list, err := m.ListUsers(t.Context()); err != nil || len(list.GetUsers()) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRemovedUser: a user that was removed is unknown at once, and can be added again.
func TestRemovedUser(t *testing.T) {
	objects := servertest.Store(t)
	m := open(t, objects, "c1")
	first := add(t, m, &api.AddUserRequest{User: &api.User{Name: "ada"}})
	bob := add(t, m, &api.AddUserRequest{User: &api.User{Name: "bob"}})
	if err := m.RemoveUser(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	unknown(t, m, "Bearer "+first)
	if err := m.RemoveUser(t.Context(), "ada"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
	if kept, _, err := objects.List(t.Context(), record.UserTokenPrefix); err != nil || len(kept) != 1 {
		t.Errorf("%d tokens are kept, %v", len(kept), err)
	}
	second := add(t, m, &api.AddUserRequest{User: &api.User{Name: "ada"}})
	unknown(t, m, "Bearer "+first)
	for _, each := range []string{bob, second} {
		if _, err := who(t, m, "Bearer "+each); err != nil {
			t.Error(err)
		}
	}
}

// TestExpiredUser: a token that has expired is refused, and the reason is told.
func TestExpiredUser(t *testing.T) {
	objects := servertest.Store(t)
	m := open(t, objects, "c1")
	read, err := token.ParseUser(add(t, m, &api.AddUserRequest{User: &api.User{Name: "ada"}}))
	if err != nil {
		t.Fatal(err)
	}
	object, err := objects.Get(t.Context(), record.UserTokenKey(read.ID))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := token.UnmarshalUser(object.Value)
	if err != nil {
		t.Fatal(err)
	}
	kept.Expires = time.Now().Add(-time.Second)
	text, err := kept.Marshal()
	if err == nil {
		_, err = objects.Put(t.Context(), store.Write{Key: object.Key, Value: text, Replaces: object.Revision})
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := who(t, m, read.Bearer())
	if !errors.Is(err, api.ErrUnknownCaller) || c != (identity.Caller{}) ||
		!strings.Contains(err.Error(), token.ErrExpired.Error()) {
		t.Errorf("it is %v, %v", c, err)
	}
}

// meanwhile is a store that runs something once before a request for the users' tokens is answered,
// or after a token was written.
type meanwhile struct {
	store.Store
	beforeAnswer, afterPut func()
}

func (s *meanwhile) List(ctx context.Context, prefix string) ([]store.Object, store.Revision, error) {
	objects, revision, err := s.Store.List(ctx, prefix)
	if run := s.beforeAnswer; run != nil && prefix == record.UserTokenPrefix {
		s.beforeAnswer = nil
		run()
	}
	return objects, revision, err
}

func (s *meanwhile) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	revision, err := s.Store.Put(ctx, w)
	if run := s.afterPut; run != nil {
		s.afterPut = nil
		run()
	}
	return revision, err
}

// TestTwoAtOnce: of two requests at once for a user of one name, one is refused and leaves nothing.
// Of two for the next token of a user, one token is good afterwards.
func TestTwoAtOnce(t *testing.T) {
	objects := servertest.Store(t)
	between := &meanwhile{Store: objects}
	m, other := open(t, between, "c1"), open(t, objects, "c1")
	ada := &api.User{Name: "ada"}
	var good string
	between.beforeAnswer = func() { good = add(t, other, &api.AddUserRequest{User: ada}) }
	if reply, err := m.AddUser(t.Context(), admin, &api.AddUserRequest{User: ada}); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a second user of one name: %v, %v", reply, err)
	}
	if _, err := who(t, m, "Bearer "+good); err != nil {
		t.Errorf("the first user's token: %v", err)
	}
	if list, err := m.ListUsers(t.Context()); err != nil || len(list.GetUsers()) != 1 {
		t.Error(list, err)
	}

	next := &api.AddUserRequest{User: ada, TokenOnly: true}
	between.afterPut = func() { good = add(t, other, next) }
	older := add(t, m, next)
	if _, err := who(t, m, "Bearer "+good); err != nil {
		t.Errorf("the newer of two tokens: %v", err)
	}
	unknown(t, m, "Bearer "+older)
}
