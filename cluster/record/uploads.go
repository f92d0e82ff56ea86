package record

import (
	"encoding/hex"
	"fmt"
	"time"
)

// UploadsPrefix begins the keys of uploads.
const UploadsPrefix = "uploads/"

// UploadsKey returns the key of the uploads of an account, whose name may not fit into a key.
func UploadsKey(account string) string { return UploadsPrefix + hex.EncodeToString([]byte(account)) }

// Uploads is the packed code that an account with a quota has sent and not launched, by its hash.
type Uploads struct {
	Account string            `json:"account"`
	Code    map[string]Upload `json:"code"`
}

// Upload is one piece of code.
type Upload struct {
	Bytes uint64    `json:"bytes"`
	Sent  time.Time `json:"sent"`
}

// uploadsVersion is the version that Encode writes.
const uploadsVersion = 1

// Encode returns the value for the store.
func (u *Uploads) Encode() []byte { return encode("uploads", uploadsVersion, u) }

// DecodeUploads reads a value of the store.
func DecodeUploads(text []byte) (Uploads, error) {
	var u Uploads
	if err := decode(text, "uploads", uploadsVersion, &u); err != nil {
		return Uploads{}, err
	}
	if u.Account == "" {
		return Uploads{}, fmt.Errorf("uploads: %w: they are of no account", ErrDamaged)
	}
	return u, nil
}
