package token

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/internal/words"
)

// JoinRecord is what the store keeps of a Join.
type JoinRecord struct {
	Version      int       `json:"version"`
	ID           string    `json:"id"`
	SecretSHA256 Hash      `json:"secret_sha256"`
	Expires      time.Time `json:"expires"`
	UsesLeft     int       `json:"uses_left"`
	// Node is the only name that a node may join under; empty: any that is free.
	Node   string            `json:"node,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Maker is the caller that made the token, for people.
	Maker string    `json:"maker"`
	Made  time.Time `json:"made"`
}

// recordVersion is that of JoinRecord and UserRecord.
const recordVersion = 1

// Limits of records.
const (
	maxLabels     = 64
	maxLabelBytes = 63
	maxMakerBytes = 256
	maxNameBytes  = 64
)

// Verify checks the secret with which a node wants to join under a name. The error is ErrRefused,
// ErrExpired or ErrUsedUp; a wrong secret learns nothing else. Whether the name is free is not
// known here: a node must not get the certificate of one that exists.
func (r JoinRecord) Verify(secret Secret, node string, now time.Time) error {
	switch {
	case !r.SecretSHA256.matches(secret):
		return ErrRefused
	case !now.Before(r.Expires):
		return fmt.Errorf("%w at %s", ErrExpired, clock(r.Expires))
	case r.UsesLeft <= 0:
		return ErrUsedUp
	case r.Node != "" && r.Node != node:
		return fmt.Errorf("%w: it is for the node %s, not for %q", ErrRefused, r.Node, words.Clip(node))
	}
	return identity.CheckNodeName(node)
}

// Used returns the record after one more use. The caller puts it in place of this one, comparing
// the revision, before it issues the certificate. If that fails, another node was first: verify
// again.
func (r JoinRecord) Used() JoinRecord {
	r.UsesLeft--
	return r
}

// Marshal returns the record as the store keeps it.
func (r JoinRecord) Marshal() ([]byte, error) { return versioned.Encode(r) }

// UnmarshalJoin reads a record and checks it.
func UnmarshalJoin(text []byte) (JoinRecord, error) {
	var r JoinRecord
	err := versioned.Decode(text, recordVersion, &r)
	if err == nil {
		if err = r.check(); err != nil {
			err = fmt.Errorf("%w: %w", versioned.ErrDamaged, err)
		}
	}
	if err != nil {
		return JoinRecord{}, fmt.Errorf("record of a token for nodes: %w", err)
	}
	return r, nil
}

// check returns what is wrong with a record.
func (r JoinRecord) check() error {
	errs := []error{checkID(r.ID), r.SecretSHA256.check(), checkText("maker", r.Maker, maxMakerBytes)}
	if r.UsesLeft < 0 || r.UsesLeft > MaxUses {
		errs = append(errs, fmt.Errorf("%d uses; want 1 to %d", r.UsesLeft, MaxUses))
	}
	if r.Node != "" {
		errs = append(errs, identity.CheckNodeName(r.Node))
	}
	if n := len(r.Labels); n > maxLabels {
		errs = append(errs, fmt.Errorf("%d labels; want up to %d", n, maxLabels))
	}
	for key, value := range r.Labels {
		errs = append(errs, checkLabel(key, value))
	}
	if r.Expires.IsZero() || r.Made.IsZero() {
		errs = append(errs, errors.New("a time is missing"))
	}
	return errors.Join(errs...)
}

// checkLabel refuses a label that is no name with a short text.
func checkLabel(key, value string) error {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
	}
	if key == "" || len(key) > maxLabelBytes || strings.ContainsFunc(key, odd) {
		return fmt.Errorf("label %q: want up to %d letters, digits and -_./", words.Clip(key), maxLabelBytes)
	}
	return checkText("label "+key, value, maxLabelBytes)
}
