package token

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/words"
)

var (
	// ErrMistyped means that the text cannot be a token as it was made: characters are wrong, missing
	// or too many.
	ErrMistyped = errors.New("the token is mistyped")
	// ErrVersion means that another version of phos has made the token.
	ErrVersion = errors.New("the token is of another version of phos")
	// ErrKind means that it is a token of the other kind.
	ErrKind = errors.New("the token is of another kind")
	// ErrExpired means that the time of a token is over.
	ErrExpired = errors.New("the token has expired")
)

// The text of a token is a prefix, the version, and in base32 the payload with its checksum. By the
// prefix, scanners of source code find tokens that were committed.
const (
	userPrefix = "phos_"
	joinPrefix = "phosjoin_"
	version    = "1"
)

// castagnoli is the polynomial of the checksum. It finds each change within 32 bits that follow
// each other, so that of any 6 neighbouring characters.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// format returns the text of a payload.
func format(prefix string, payload []byte) string {
	return prefix + version + identity.Base32.EncodeToString(append(payload, checksum(prefix, payload)...))
}

// checksum covers the prefix, too: a token does not become one of the other kind.
func checksum(prefix string, payload []byte) []byte {
	sum := crc32.Checksum([]byte(prefix+version), castagnoli)
	return binary.BigEndian.AppendUint32(nil, crc32.Update(sum, castagnoli, payload))
}

// parse returns the payload of a text, which must have this size. The text must be the only one of
// its payload.
func parse(prefix, text string, payloadBytes int) ([]byte, error) {
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		return nil, notThis(prefix, text)
	}
	if rest == "" {
		return nil, fmt.Errorf("%w: nothing follows %s", ErrMistyped, prefix)
	}
	if rest[:1] != version {
		return nil, otherVersion(rest[:1])
	}
	want := identity.Base32.EncodedLen(payloadBytes + crc32.Size)
	if n := len(rest) - len(version); n != want {
		return nil, fmt.Errorf("%w: it has %s after %s%s, and %d are right",
			ErrMistyped, words.CountOf(n, "character"), prefix, version, want)
	}
	bytes, err := identity.Base32.DecodeString(rest[len(version):])
	if err != nil || len(bytes) != payloadBytes+crc32.Size {
		return nil, fmt.Errorf("%w: only small letters and the digits 2 to 7 follow %s%s", ErrMistyped, prefix, version)
	}
	// The decoder skips line ends and unused bits.
	if payload := bytes[:payloadBytes]; format(prefix, payload[:payloadBytes:payloadBytes]) == text {
		return payload, nil
	}
	return nil, fmt.Errorf("%w: its checksum is wrong", ErrMistyped)
}

// notThis says what a text is that lacks the prefix.
func notThis(prefix, text string) error {
	switch {
	case prefix != joinPrefix && strings.HasPrefix(text, joinPrefix):
		return fmt.Errorf("%w: it is for nodes that join; one for users begins with %s", ErrKind, userPrefix)
	case prefix != userPrefix && strings.HasPrefix(text, userPrefix):
		return fmt.Errorf("%w: it is for users; one for nodes that join begins with %s", ErrKind, joinPrefix)
	}
	return fmt.Errorf("%w: it does not begin with %s", ErrMistyped, prefix)
}

// otherVersion says what a character is that stands where the version does.
func otherVersion(character string) error {
	if character < "0" || character > "9" {
		return fmt.Errorf("%w: no version follows its prefix", ErrMistyped)
	}
	return fmt.Errorf("%w: it has version %s, and this phos knows version %s", ErrVersion, character, version)
}
