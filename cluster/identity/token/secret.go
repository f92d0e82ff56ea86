package token

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/words"
)

// Secret is the part of a token that proves it. No form of printing shows it.
type Secret [16]byte

// Format keeps all verbs of fmt from showing the bytes.
func (Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "(secret)") }

// MarshalText keeps JSON and log records from showing the bytes.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Hash is the SHA-256 of a Secret. Records have it in place of the secret.
type Hash [sha256.Size]byte

// Hash returns what a record keeps of a secret.
func (s Secret) Hash() Hash { return sha256.Sum256(s[:]) }

// matches compares in a time that does not depend on the secret.
func (h Hash) matches(s Secret) bool {
	hash := s.Hash()
	return subtle.ConstantTimeCompare(h[:], hash[:]) == 1
}

// MarshalText returns 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText returns.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("hash of a secret: %d digits", len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// idBytes is the size of a token's id before it is made text.
const idBytes = 5

// newParts makes the id and the secret of a new token.
func newParts(random io.Reader) (id string, secret Secret, err error) {
	var bytes [idBytes + len(Secret{})]byte
	if _, err := io.ReadFull(random, bytes[:]); err != nil {
		return "", Secret{}, fmt.Errorf("make a token: %w", err)
	}
	return identity.Base32.EncodeToString(bytes[:idBytes]), Secret(bytes[idBytes:]), nil
}

// appendParts appends an id and a secret to a payload. Only valid ids are passed to it.
func appendParts(payload []byte, id string, secret Secret) []byte {
	bytes, _ := identity.Base32.DecodeString(id)
	return append(append(payload, bytes...), secret[:]...)
}

// cutParts is the inverse of appendParts.
func cutParts(payload []byte) (id string, secret Secret, rest []byte) {
	secretEnd := idBytes + len(secret)
	return identity.Base32.EncodeToString(payload[:idBytes]), Secret(payload[idBytes:secretEnd]), payload[secretEnd:]
}

// check refuses a hash that was left out of a record.
func (h Hash) check() error {
	if h == (Hash{}) {
		return errors.New("the hash of the secret is missing")
	}
	return nil
}

// checkID refuses what is no id of a token.
func checkID(id string) error {
	bytes, err := identity.Base32.DecodeString(id)
	if err != nil || len(bytes) != idBytes || identity.Base32.EncodeToString(bytes) != id {
		return fmt.Errorf("%q is no id of a token", words.Clip(id))
	}
	return nil
}

// checkText refuses what cannot be shown in one short line.
func checkText(what, text string, maxBytes int) error {
	printable := strings.IndexFunc(text, func(r rune) bool { return words.Hidden(r) || r == '\uFFFD' }) < 0
	if text == "" || len(text) > maxBytes || !printable {
		return fmt.Errorf("%s %q: want up to %d printable characters", what, words.Clip(text), maxBytes)
	}
	return nil
}

var (
	// ErrRefused means that a token is not the one of its record, or may not be used like this.
	ErrRefused = errors.New("the token is refused")
	// ErrUsedUp means that a token was used as often as it may be.
	ErrUsedUp = errors.New("the token is used up")
)
