package token

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
)

// User is a token by which a user, or a user's script, is known.
type User struct {
	// ID names the record. It is no secret.
	ID     string
	Secret Secret
}

// userBytes is the size of a User's payload.
const userBytes = idBytes + len(Secret{})

// Text returns the token as the user keeps it.
func (u User) Text() string { return format(userPrefix, appendParts(nil, u.ID, u.Secret)) }

// ParseUser reads what User.Text returns. The error is ErrMistyped, ErrVersion or ErrKind.
func ParseUser(text string) (User, error) {
	payload, err := parse(userPrefix, text, userBytes)
	if err != nil {
		return User{}, err
	}
	id, secret, _ := cutParts(payload)
	return User{id, secret}, nil
}

// ParseBearer reads the value of an Authorization header: Bearer and a token.
func ParseBearer(header string) (User, error) {
	kind, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(kind, "bearer") {
		return User{}, fmt.Errorf("%w: the request has no bearer token", ErrKind)
	}
	return ParseUser(strings.Trim(text, " "))
}

// Bearer returns the value of an Authorization header, which ParseBearer reads.
func (u User) Bearer() string { return "Bearer " + u.Text() }

// UserSpec says what a new token allows.
type UserSpec struct {
	// Name tells the token from others of the same account: laptop, ci.
	Name string
	// Account is the Unix account that launches run as.
	Account   string
	Role      identity.Role
	AllowRoot bool
	// Lifetime is how long it is valid; 0: until it is removed.
	Lifetime time.Duration
}

// ErrTooMuch means that the maker of a token may not give what the token would allow.
var ErrTooMuch = errors.New("only an administrator can make such a token")

// NewUser makes a token and its record. Administrators make any. Others make tokens for their own
// account that allow no more than their own launches: not to see all, and not to run as root.
func NewUser(random io.Reader, now time.Time, maker identity.Caller, spec UserSpec) (User, UserRecord, error) {
	fail := func(err error) (User, UserRecord, error) {
		return User{}, UserRecord{}, fmt.Errorf("make a token for %s: %w", spec.Account, err)
	}
	if err := checkGrant(maker, spec); err != nil {
		return fail(err)
	}
	id, secret, err := newParts(random)
	if err != nil {
		return fail(err)
	}
	now = now.UTC().Truncate(time.Second)
	r := UserRecord{
		Version: recordVersion, ID: id, SecretSHA256: secret.Hash(), Name: spec.Name, Account: spec.Account,
		Role: spec.Role, AllowRoot: spec.AllowRoot, Maker: maker.String(), Made: now,
	}
	switch {
	case spec.Lifetime < 0, spec.Lifetime > 0 && spec.Lifetime < time.Second:
		return fail(fmt.Errorf("a lifetime of %s", spec.Lifetime))
	case spec.Lifetime > 0:
		r.Expires = now.Add(spec.Lifetime).Truncate(time.Second)
	}
	if err := r.check(); err != nil {
		return fail(err)
	}
	return User{id, secret}, r, nil
}

// checkGrant returns an error if the maker may not make such a token.
func checkGrant(maker identity.Caller, spec UserSpec) error {
	err := identity.Check(maker, identity.Create, identity.Target{Thing: identity.UserToken, Owner: spec.Account})
	if err != nil {
		return err
	}
	if !maker.IsAdmin() && (spec.Role != identity.RoleUser || spec.AllowRoot) {
		return ErrTooMuch
	}
	return nil
}

// UserRecord is what the store keeps of a User.
type UserRecord struct {
	Version      int           `json:"version"`
	ID           string        `json:"id"`
	SecretSHA256 Hash          `json:"secret_sha256"`
	Name         string        `json:"name"`
	Account      string        `json:"account"`
	Role         identity.Role `json:"role"`
	// AllowRoot means that an administrator allows launches to run as root.
	AllowRoot bool `json:"allow_root,omitempty"`
	// Expires is zero for a token that is valid until it is removed.
	Expires time.Time `json:"expires,omitzero"`
	// Maker is the caller that made the token, for people.
	Maker string    `json:"maker"`
	Made  time.Time `json:"made"`
}

// Verify returns the caller that a token stands for. The error is ErrRefused or ErrExpired; a wrong
// secret learns nothing else.
func (r UserRecord) Verify(secret Secret, now time.Time) (identity.Caller, error) {
	if !r.SecretSHA256.matches(secret) {
		return identity.Caller{}, ErrRefused
	}
	if !r.Expires.IsZero() && !now.Before(r.Expires) {
		return identity.Caller{}, fmt.Errorf("%w at %s", ErrExpired, clock(r.Expires))
	}
	return identity.Caller{
		Kind: identity.User, Name: r.Name, Account: r.Account, Role: r.Role, AllowRoot: r.AllowRoot,
	}, nil
}

// Marshal returns the record as the store keeps it.
func (r UserRecord) Marshal() ([]byte, error) { return versioned.Encode(r) }

// UnmarshalUser reads a record and checks it.
func UnmarshalUser(text []byte) (UserRecord, error) {
	var r UserRecord
	err := versioned.Decode(text, recordVersion, &r)
	if err == nil {
		if err = r.check(); err != nil {
			err = fmt.Errorf("%w: %w", versioned.ErrDamaged, err)
		}
	}
	if err != nil {
		return UserRecord{}, fmt.Errorf("record of a user's token: %w", err)
	}
	return r, nil
}

// check returns what is wrong with a record.
func (r UserRecord) check() error {
	errs := []error{
		checkID(r.ID), r.SecretSHA256.check(),
		checkText("name", r.Name, maxNameBytes), checkText("maker", r.Maker, maxMakerBytes),
		identity.CheckAccountName(r.Account), r.Role.Check(),
	}
	if r.Made.IsZero() {
		errs = append(errs, errors.New("the time at which it was made is missing"))
	}
	return errors.Join(errs...)
}
