package control

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
)

// MaxCode is the most bytes of a packed directory.
const MaxCode = 1 << 30

// codePart is how many bytes go into one message.
const codePart = 256 << 10

// CodeStore keeps packed directories as files that are named by their hash.
type CodeStore struct{ dir string }

// NewCodeStore returns the store in a directory, which it creates. What an interrupted upload has
// left is removed.
func NewCodeStore(dir string) (*CodeStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store of code: %w", err)
	}
	partial, _ := filepath.Glob(filepath.Join(dir, "upload-*")) // the pattern is valid
	for _, path := range partial {
		_ = os.Remove(path)
	}
	return &CodeStore{dir}, nil
}

// path returns where code is kept, and an error for a hash that is none.
func (c *CodeStore) path(ref *api.CodeRef) (string, error) {
	if len(ref.GetHash()) != 32 {
		return "", api.Invalid(fmt.Sprintf("a hash of %d bytes; want the 32 of BLAKE3", len(ref.GetHash())))
	}
	return filepath.Join(c.dir, hex.EncodeToString(ref.GetHash())), nil
}

// has reports whether the store has code.
func (c *CodeStore) has(ref *api.CodeRef) bool {
	path, err := c.path(ref)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && uint64(info.Size()) == ref.GetBytes()
}

// receive keeps what next returns, until it returns io.EOF. The content must have the hash.
func (c *CodeStore) receive(ref *api.CodeRef, next func() ([]byte, error)) error {
	path, err := c.path(ref)
	if err != nil {
		return err
	}
	if ref.GetBytes() > MaxCode {
		return fmt.Errorf("%w: %d bytes of code; at most %d are taken", api.ErrTooLarge, ref.GetBytes(), MaxCode)
	}
	file, err := os.CreateTemp(c.dir, "upload-*")
	if err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := copyCode(file, ref, next); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("keep code: %w", err)
	}
	return os.Rename(file.Name(), path)
}

// copyCode writes code to a file, and checks that it is what was announced.
func copyCode(file io.Writer, ref *api.CodeRef, next func() ([]byte, error)) error {
	hash, got := blake3.New(), uint64(0)
	for {
		data, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if got += uint64(len(data)); got > ref.GetBytes() {
			return api.Invalid("more code was sent than announced")
		}
		_, _ = hash.Write(data) // a hash takes all
		if _, err := file.Write(data); err != nil {
			return fmt.Errorf("keep code: %w", err)
		}
	}
	if got != ref.GetBytes() || string(hash.Sum(nil)) != string(ref.GetHash()) {
		return api.Invalid(fmt.Sprintf("code of %d bytes does not have the hash that was announced", got))
	}
	return nil
}

// send reads code part by part.
func (c *CodeStore) send(ref *api.CodeRef, part func([]byte) error) error {
	path, err := c.path(ref)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: code %x", api.ErrNotFound, ref.GetHash()[:6])
	}
	if err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	defer file.Close()
	buffer := make([]byte, codePart)
	for {
		n, err := io.ReadFull(file, buffer)
		if n > 0 {
			if err := part(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read code: %w", err)
		}
	}
}
