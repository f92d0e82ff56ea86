package identity

import (
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
)

// ErrBadName means that a text is no name of a cluster, node or account.
var ErrBadName = errors.New("invalid name")

// ClusterID tells one cluster from all others. It is in each certificate.
type ClusterID string

// clusterIDBytes is the size of a ClusterID before it is made text of 16 characters.
const clusterIDBytes = 10

// Base32 is the alphabet of all texts of this package that people copy: small letters, and no
// digits that look like letters.
var Base32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewClusterID makes the id of a new cluster.
func NewClusterID(random io.Reader) (ClusterID, error) {
	var id [clusterIDBytes]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", fmt.Errorf("make a cluster id: %w", err)
	}
	return ClusterID(Base32.EncodeToString(id[:])), nil
}

// Check returns ErrBadName for what NewClusterID does not make.
func (id ClusterID) Check() error {
	if len(id) != Base32.EncodedLen(clusterIDBytes) || strings.ContainsFunc(string(id), isNoBase32) {
		return fmt.Errorf("cluster id %q: %w: want 16 small letters and digits", words.Clip(string(id)), ErrBadName)
	}
	return nil
}

// isNoBase32 reports whether a character is none of Base32.
func isNoBase32(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }

// maxNodeName is the most that Linux takes as a host's name and X.509 as a common name.
const maxNodeName = 64

// CheckNodeName returns ErrBadName for what is no name of a node or controller: a host's name in
// small letters. It is part of certificates, of keys in the store, and of paths.
func CheckNodeName(name string) error {
	if len(name) > maxNodeName {
		return fmt.Errorf("node %q: %w: %d characters; at most %d are allowed",
			words.Clip(name), ErrBadName, len(name), maxNodeName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return fmt.Errorf("node %q: %w: want small letters, digits, - and dots, as gpu-3.example.org",
				name, ErrBadName)
		}
	}
	return nil
}

// isLabel reports whether a text is a part of a host's name.
func isLabel(text string) bool {
	for i, r := range text {
		inner := i > 0 && i < len(text)-1
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && (r != '-' || !inner) {
			return false
		}
	}
	return text != ""
}

// maxAccount is more than Linux takes, because directories of a network have longer names.
const maxAccount = 64

// CheckAccountName returns ErrBadName for what is no name of a Unix account. A number is none: some
// programs take it for a uid, and 0 is root.
func CheckAccountName(name string) error {
	digits := strings.Trim(name, "0123456789") == ""
	if len(name) > maxAccount || digits || name[0] == '-' || strings.ContainsFunc(name, isNoAccountRune) {
		return fmt.Errorf("account %q: %w: want letters, digits and ._-@$, not a number alone",
			words.Clip(name), ErrBadName)
	}
	return nil
}

// isNoAccountRune reports whether a character cannot stand in the name of an account.
func isNoAccountRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._-@$", r)
}
