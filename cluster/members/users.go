package members

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// AddUser makes a token for a user. With TokenOnly it is the next one of a user that has one, which
// is worth nothing from then on.
func (m *Members) AddUser(ctx context.Context, by identity.Caller, request *api.AddUserRequest) (*api.AddUserReply, error) {
	spec, err := m.userSpec(ctx, request)
	if err != nil {
		return nil, err
	}
	made, kept, err := token.NewUser(rand.Reader, time.Now(), by, spec)
	if err != nil {
		return nil, api.Invalid(err.Error())
	}
	text, err := kept.Marshal()
	if err != nil {
		return nil, err
	}
	at, err := m.store.Put(ctx, store.Write{Key: record.UserTokenKey(made.ID), Value: text, Replaces: store.New})
	if err != nil {
		return nil, fmt.Errorf("keep the token: %w", err)
	}
	if request.GetTokenOnly() {
		_, err = m.removeTokens(ctx, kept.Name, at)
	} else {
		err = m.firstOfName(ctx, kept, at)
	}
	if err != nil {
		return nil, err
	}
	return &api.AddUserReply{User: userView(kept), Token: made.Text(), Controllers: m.Addresses(), Ca: m.CA()}, nil
}

// nameTaken refuses a second user of a name.
func nameTaken(name string) error {
	return fmt.Errorf("%w: there is a user %s; phos user token makes another token", api.ErrRefused, name)
}

// firstOfName takes a new user's token back if another request has made a user of this name in the
// meantime: the first record stays.
func (m *Members) firstOfName(ctx context.Context, kept token.UserRecord, at store.Revision) error {
	return m.eachToken(ctx, kept.Name, func(object store.Object) error {
		if object.Revision >= at {
			return nil
		}
		own := store.Write{Key: record.UserTokenKey(kept.ID), Replaces: at}
		if err := m.store.Delete(ctx, own); err != nil {
			return fmt.Errorf("remove token %s of %s: %w", kept.ID, kept.Name, err)
		}
		return nameTaken(kept.Name)
	})
}

// userSpec returns what the new token of a user shall allow.
func (m *Members) userSpec(ctx context.Context, request *api.AddUserRequest) (token.UserSpec, error) {
	user := request.GetUser()
	kept, err := m.users(ctx)
	if err != nil {
		return token.UserSpec{}, err
	}
	for _, each := range kept {
		switch {
		case each.Name != user.GetName():
		case !request.GetTokenOnly():
			return token.UserSpec{}, nameTaken(user.GetName())
		default:
			spec := token.UserSpec{Name: each.Name, Account: each.Account, Role: each.Role, AllowRoot: each.AllowRoot}
			return withLifetime(spec, user), nil
		}
	}
	if request.GetTokenOnly() {
		return token.UserSpec{}, fmt.Errorf("%w: user %.100q", api.ErrNotFound, user.GetName())
	}
	spec := token.UserSpec{
		Name: user.GetName(), Account: user.GetAccount(), Role: identity.Role(user.GetRole()), AllowRoot: user.GetAllowRoot(),
	}
	if spec.Account == "" {
		spec.Account = spec.Name
	}
	if spec.Role == "" {
		spec.Role = identity.RoleUser
	}
	return withLifetime(spec, user), nil
}

// withLifetime adds how long a token shall be valid; unset, it has no end.
func withLifetime(spec token.UserSpec, user *api.User) token.UserSpec {
	if expires := user.GetExpiresUnixMs(); expires != 0 {
		spec.Lifetime = time.Until(time.UnixMilli(expires))
	}
	return spec
}

// RemoveUser removes all tokens of a user.
func (m *Members) RemoveUser(ctx context.Context, name string) error {
	removed, err := m.removeTokens(ctx, name, math.MaxInt64)
	if err == nil && removed == 0 {
		err = fmt.Errorf("%w: user %.100q", api.ErrNotFound, name)
	}
	return err
}

// removeTokens removes the tokens of a user that are older than a revision, and returns how many
// those were.
func (m *Members) removeTokens(ctx context.Context, name string, before store.Revision) (removed int, err error) {
	err = m.eachToken(ctx, name, func(object store.Object) error {
		if object.Revision >= before {
			return nil
		}
		err := m.store.Delete(ctx, store.Write{Key: object.Key, Replaces: object.Revision})
		switch {
		case errors.Is(err, store.ErrConflict):
			return nil // another request has removed it: tokens never change
		case err != nil:
			return fmt.Errorf("remove a token of %s: %w", name, err)
		}
		removed++
		return nil
	})
	return removed, err
}

// eachToken calls do with the records of a user's tokens, until it fails.
func (m *Members) eachToken(ctx context.Context, name string, do func(store.Object) error) error {
	objects, _, err := m.store.List(ctx, record.UserTokenPrefix)
	if err != nil {
		return err
	}
	for _, object := range objects {
		kept, err := token.UnmarshalUser(object.Value)
		if err != nil || kept.Name != name {
			continue
		}
		if err := do(object); err != nil {
			return err
		}
	}
	return nil
}
