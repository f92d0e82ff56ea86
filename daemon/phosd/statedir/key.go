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
)

// Key seals images.
type Key [32]byte

const (
	keyName   = "seal"
	keySuffix = ".key"
)

// ErrKey means that a file with a key holds none.
var ErrKey = errors.New("no key: 64 hexadecimal digits and a line's end are expected")

// Key is the one that this machine seals with.
func (d *Dir) Key() Key { return d.key }

// Imported are the keys of other machines whose seals count here too: the files keys/NAME.key,
// written as key/seal is.
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

// Names are those of the imported keys.
func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.imported())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imported keys: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name(), keySuffix); is {
			names = append(names, name)
		}
	}
	return names, nil
}

// ErrKeyName means that a key cannot be called so.
var ErrKeyName = errors.New(
	"a key's name is made of letters, digits, dots, dashes and underlines, and does not begin with a dot",
)

const longestKeyName = 100

func (d *Dir) keyPath(name string) (string, error) {
	fits := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r)
	}
	if name == "" || len(name) > longestKeyName || name[0] == '.' ||
		strings.ContainsFunc(name, func(r rune) bool { return !fits(r) }) {
		return "", fmt.Errorf("%q: %w", name, ErrKeyName)
	}
	return filepath.Join(d.imported(), name+keySuffix), nil
}

// Import keeps the key of another machine under a name; one that has the name already is replaced.
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

// ErrNoKey means that nothing was imported under a name.
var ErrNoKey = errors.New("no key")

// Forget removes an imported key; ErrNoKey where there is none.
func (d *Dir) Forget(name string) error {
	path, err := d.keyPath(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w is called %s; see: pos_cli image key list", ErrNoKey, name)
	} else if err != nil {
		return fmt.Errorf("forget key: %w", err)
	}
	return syncDirectory(d.imported())
}

// openKey reads the key, or makes it when there is none yet.
func openKey(path string) (Key, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, _ = rand.Read(key[:]) // it never fails
	return key, writeKey(path, key)
}

// writeKey makes or replaces a file with a key, and has it on the disk.
func writeKey(path string, key Key) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	_, err = fmt.Fprintln(file, hex.EncodeToString(key[:]))
	// Images that a lost key has sealed are lost to their users.
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	return syncDirectory(filepath.Dir(path))
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

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
