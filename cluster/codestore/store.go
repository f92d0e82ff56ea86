package codestore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// maxBytes is the most bytes of a packed directory.
const maxBytes = 1 << 30

// uploadPrefix begins the names of files that are not complete.
const uploadPrefix = "upload-"

func isUpload(name string) bool { return strings.HasPrefix(name, uploadPrefix) }

// Store keeps packed directories as files that are named by their hash. A file whose content is
// damaged is no code: it counts as missing until it is received again.
type Store struct {
	dir      string
	verified sync.Map // of the name of a file: *verified
}

// NewStore returns the store in a directory, which it creates. What an interrupted upload has
// left is removed.
func NewStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store of code: %w", err)
	}
	partial, _ := filepath.Glob(filepath.Join(dir, uploadPrefix+"*")) // the pattern is valid
	for _, path := range partial {
		_ = os.Remove(path)
	}
	return &Store{dir: dir}, nil
}

// Check returns an error for a hash that is none.
func Check(ref *api.CodeRef) error {
	if len(ref.GetHash()) != 32 {
		return api.Invalid(fmt.Sprintf("a hash of %d bytes; want the 32 of BLAKE3", len(ref.GetHash())))
	}
	return nil
}

// path returns where code is kept, and an error for a hash that is none.
func (s *Store) path(ref *api.CodeRef) (string, error) {
	if err := Check(ref); err != nil {
		return "", err
	}
	return filepath.Join(s.dir, hex.EncodeToString(ref.GetHash())), nil
}

// Has reports whether the store has code.
func (s *Store) Has(ref *api.CodeRef) bool {
	file, err := s.Open(ref)
	if err != nil {
		return false
	}
	_ = file.Close() // it was read only
	return true
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
	file, err := os.CreateTemp(s.dir, uploadPrefix+"*")
	if err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := Receive(file, ref, next); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	if err := s.name(file, path); err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	return nil
}

// name gives a complete file its name, which survives a power cut then.
func (s *Store) name(file *os.File, path string) error {
	v := s.verifiedOf(path)
	v.mu.Lock() // a sweep may be about to remove the file of this name
	defer v.mu.Unlock()
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	v.note(file)
	return dirsync.Sync(s.dir)
}

// Open returns the file of code, once its content is known to have the hash. The caller closes it.
func (s *Store) Open(ref *api.CodeRef) (*os.File, error) {
	path, err := s.path(ref)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notFound(ref)
	}
	if err != nil {
		return nil, fmt.Errorf("read code: %w", err)
	}
	whole, err := s.verifiedOf(path).check(file, ref)
	if err == nil && !whole {
		err = notFound(ref)
	}
	if err != nil {
		_ = file.Close() // it was read only
		return nil, err
	}
	return file, nil
}

// notFound is the error for code that the store does not have.
func notFound(ref *api.CodeRef) error {
	return fmt.Errorf("%w: code %.12x", api.ErrNotFound, ref.GetHash())
}
