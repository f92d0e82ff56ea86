package statedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// Key seals images.
type Key [32]byte

const (
	keyName   = "seal"
	keySuffix = ".key"
)

// ErrKey is returned when a file does not hold a key.
var ErrKey = errors.New("not a key: 64 hexadecimal digits and a line's end are expected")

// Key returns the key that this machine seals with.
func (d *Dir) Key() Key { return d.key }

// Imported returns the keys of other machines whose seals are accepted: the files keys/NAME.key, in
// the format of key/seal.
func (d *Dir) Imported() ([]Key, error) {
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	var keys []Key
	for _, name := range names {
		key, err := readKey(filepath.Join(d.imported(), name+keySuffix))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Names returns the names of the imported keys.
func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.imported())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imported keys: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), keySuffix); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// ErrKeyName is returned for an invalid name of a key.
var ErrKeyName = errors.New(
	"a key's name is made of letters, digits, dots, dashes and underlines, and does not begin with a dot",
)

const maxKeyName = 100

// keyPath returns the path of an imported key, or ErrKeyName if the name is not a plain file name.
func (d *Dir) keyPath(name string) (string, error) {
	fits := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r)
	}
	if name == "" || len(name) > maxKeyName || name[0] == '.' ||
		strings.ContainsFunc(name, func(r rune) bool { return !fits(r) }) {
		return "", fmt.Errorf("%q: %w", name, ErrKeyName)
	}
	return filepath.Join(d.imported(), name+keySuffix), nil
}

// Import stores the key of another machine under a name. It replaces a key of the same name.
func (d *Dir) Import(name string, key []byte) error {
	path, err := d.keyPath(name)
	if err != nil {
		return err
	}
	if len(key) != len(Key{}) {
		return fmt.Errorf("import key %s: %d bytes: %w", name, len(key), ErrKey)
	}
	return writeKey(path, Key(key))
}

// ErrNoKey is returned when no key of a name was imported.
var ErrNoKey = errors.New("no key")

// RemoveKey removes an imported key.
func (d *Dir) RemoveKey(name string) error {
	path, err := d.keyPath(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w is called %s; see: pos_cli image key list", ErrNoKey, name)
	} else if err != nil {
		return fmt.Errorf("remove key: %w", err)
	}
	return dirsync.Sync(d.imported())
}

// openKey reads the key, or makes it if there is none yet.
func openKey(path string) (Key, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, _ = rand.Read(key[:]) // it never fails
	return key, writeKey(path, key)
}

// writeKey makes or replaces a file with a key, and flushes it to the disk.
func writeKey(path string, key Key) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = fmt.Fprintln(file, hex.EncodeToString(key[:]))
	// If a key is lost, users can no longer restore the images that it has sealed.
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return dirsync.Sync(filepath.Dir(path))
}

func readKey(path string) (key Key, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return key, fmt.Errorf("read key: %w", err)
	}
	digits := strings.TrimSpace(string(text))
	if len(digits) != hex.EncodedLen(len(key)) {
		return key, fmt.Errorf("read key %s: %w", path, ErrKey)
	}
	if _, err := hex.Decode(key[:], []byte(digits)); err != nil {
		return key, fmt.Errorf("read key %s: %w", path, ErrKey)
	}
	return key, nil
}
