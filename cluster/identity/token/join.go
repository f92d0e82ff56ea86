package token

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/words"
)

// Join is a token by which nodes join.
type Join struct {
	// ID names the record. It is no secret.
	ID     string
	Secret Secret
	// CA is the fingerprint of the CA that has issued the controllers' certificates.
	CA identity.Fingerprint
	// Expires is the same time as in the record, so that the agent can tell it without a controller.
	// It is not protected: only the record counts.
	Expires time.Time
	// Addresses are those of controllers, HOST:PORT.
	Addresses []string
}

// MaxAddresses is the most addresses of a token.
const MaxAddresses = 8

// joinBytes is the size of a Join's payload.
const joinBytes = idBytes + len(Secret{}) + len(identity.Fingerprint{}) + 8

// Text returns the token as the administrator copies it to the node: TOKEN@HOST:PORT.
func (j Join) Text() string {
	payload := append(appendParts(nil, j.ID, j.Secret), j.CA[:]...)
	payload = binary.BigEndian.AppendUint64(payload, uint64(j.Expires.Unix()))
	return format(joinPrefix, payload) + "@" + strings.Join(j.Addresses, ",")
}

// ParseJoin reads what Join.Text returns. The error is ErrMistyped, ErrVersion, ErrKind or
// ErrExpired.
func ParseJoin(text string, now time.Time) (Join, error) {
	text, addresses, found := strings.Cut(text, "@")
	if !found {
		return Join{}, fmt.Errorf("%w: @HOST:PORT is missing at its end", ErrMistyped)
	}
	payload, err := parse(joinPrefix, text, joinBytes)
	if err != nil {
		return Join{}, err
	}
	var j Join
	j.ID, j.Secret, payload = cutParts(payload)
	copy(j.CA[:], payload)
	j.Expires = time.Unix(int64(binary.BigEndian.Uint64(payload[len(j.CA):])), 0).UTC()
	j.Addresses = strings.Split(addresses, ",")
	if err := CheckAddresses(j.Addresses); err != nil {
		return Join{}, fmt.Errorf("%w: %w", ErrMistyped, err)
	}
	if !now.Before(j.Expires) {
		return Join{}, fmt.Errorf("%w at %s; the clock of this machine says %s; make a new one on a controller",
			ErrExpired, clock(j.Expires), clock(now))
	}
	return j, nil
}

// clock returns a time as messages show it.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// CheckAddresses refuses what are no addresses of controllers: HOST:PORT, [IPv6]:PORT.
func CheckAddresses(addresses []string) error {
	if n := len(addresses); n == 0 || n > MaxAddresses {
		return fmt.Errorf("%s; want 1 to %d", words.Count(n, "address", "addresses"), MaxAddresses)
	}
	for _, each := range addresses {
		host, port, err := net.SplitHostPort(each)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		if err != nil || numberErr != nil || number == 0 || !isHost(host) || net.JoinHostPort(host, port) != each {
			return fmt.Errorf("address %q: want HOST:PORT", words.Clip(each))
		}
	}
	return nil
}

// isHost reports whether a text is an IP address without a zone, or can be a host's name.
func isHost(text string) bool {
	if net.ParseIP(text) != nil {
		return true
	}
	return text != "" && len(text) <= 253 && !strings.HasPrefix(text, "-") &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
		})
}

// JoinSpec says what a new token allows.
type JoinSpec struct {
	Addresses []string
	CA        identity.Fingerprint
	Lifetime  time.Duration
	// Uses is how many nodes may join by the token.
	Uses int
	// Node is the only name that a node may join under; empty: any that is free.
	Node string
	// Labels are given to the nodes that join.
	Labels map[string]string
}

const (
	// MaxLifetime is the longest time that a token for joining may be valid.
	MaxLifetime = 30 * 24 * time.Hour
	// MaxUses is how many nodes may join by one token, at most.
	MaxUses = 10_000
)

// NewJoin makes a token and its record. Only administrators and controllers may.
func NewJoin(random io.Reader, now time.Time, maker identity.Caller, spec JoinSpec) (Join, JoinRecord, error) {
	fail := func(err error) (Join, JoinRecord, error) {
		return Join{}, JoinRecord{}, fmt.Errorf("make a token for nodes: %w", err)
	}
	if err := identity.Check(maker, identity.Create, identity.Target{Thing: identity.Settings}); err != nil {
		return fail(err)
	}
	if err := CheckAddresses(spec.Addresses); err != nil {
		return fail(err)
	}
	if spec.Lifetime < time.Second || spec.Lifetime > MaxLifetime {
		return fail(fmt.Errorf("a lifetime of %s; want up to %s", spec.Lifetime, MaxLifetime))
	}
	id, secret, err := newParts(random)
	if err != nil {
		return fail(err)
	}
	now = now.UTC().Truncate(time.Second)
	r := JoinRecord{
		Version: recordVersion, ID: id, SecretSHA256: secret.Hash(), Made: now, Maker: maker.String(),
		Expires: now.Add(spec.Lifetime).Truncate(time.Second), UsesLeft: spec.Uses, Node: spec.Node,
		Labels: maps.Clone(spec.Labels),
	}
	if err := r.check(); err != nil {
		return fail(err)
	}
	if r.UsesLeft == 0 {
		return fail(fmt.Errorf("no uses; want 1 to %d", MaxUses))
	}
	return Join{id, secret, spec.CA, r.Expires, slices.Clone(spec.Addresses)}, r, nil
}
