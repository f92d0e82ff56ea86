package code

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

// maxBytes is the most bytes of a packed directory.
const maxBytes = 1 << 30

// Store keeps packed directories as files that are named by their hash.
type Store struct{ dir string }

// NewStore returns the store in a directory, which it creates. What an interrupted upload has
// left is removed.
func NewStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store of code: %w", err)
	}
	partial, _ := filepath.Glob(filepath.Join(dir, "upload-*")) // the pattern is valid
	for _, path := range partial {
		_ = os.Remove(path)
	}
	return &Store{dir}, nil
}

// path returns where code is kept, and an error for a hash that is none.
func (s *Store) path(ref *api.CodeRef) (string, error) {
	if len(ref.GetHash()) != 32 {
		return "", api.Invalid(fmt.Sprintf("a hash of %d bytes; want the 32 of BLAKE3", len(ref.GetHash())))
	}
	return filepath.Join(s.dir, hex.EncodeToString(ref.GetHash())), nil
}

// Has reports whether the store has code.
func (s *Store) Has(ref *api.CodeRef) bool {
	path, err := s.path(ref)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && uint64(info.Size()) == ref.GetBytes()
}

// Receive keeps what next returns, until it returns io.EOF. The content must have the hash.
func (s *Store) Receive(ref *api.CodeRef, next func() (*api.CodePart, error)) error {
	path, err := s.path(ref)
	if err != nil {
		return err
	}
	if ref.GetBytes() > maxBytes {
		return fmt.Errorf("%w: %d bytes of code; at most %d are taken", api.ErrTooLarge, ref.GetBytes(), maxBytes)
	}
	file, err := os.CreateTemp(s.dir, "upload-*")
	if err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := messages.ReceiveCode(file, ref, next); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	return os.Rename(file.Name(), path)
}

// Open returns the file of code. The caller closes it.
func (s *Store) Open(ref *api.CodeRef) (*os.File, error) {
	path, err := s.path(ref)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: code %.12x", api.ErrNotFound, ref.GetHash())
	}
	if err != nil {
		return nil, fmt.Errorf("read code: %w", err)
	}
	return file, nil
}
