package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// Records are small files of one kind. They outlive a boot.
type Records struct{ path string }

const recordSuffix = ".json"

// Records opens or makes the records of a kind.
func (d *Dir) Records(kind string) (*Records, error) {
	r := &Records{filepath.Join(d.path, "records", kind)}
	for _, path := range []string{filepath.Dir(r.path), r.path} {
		if err := ownDirectory(path, private); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Save writes a record and flushes it to the disk. After a crash it is the old one or the new one.
func (r *Records) Save(name string, text []byte) error {
	temporary := filepath.Join(r.path, name+".new")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("save record: %w", err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("save record: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(r.path, name+recordSuffix)); err != nil {
		return fmt.Errorf("save record: %w", err)
	}
	return dirsync.Sync(r.path)
}

// All returns the records by their names.
func (r *Records) All() (map[string][]byte, error) {
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	all := make(map[string][]byte)
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok {
			continue // left by an interrupted Save
		}
		text, err := os.ReadFile(filepath.Join(r.path, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read records: %w", err)
		}
		if err == nil {
			all[name] = text
		}
	}
	return all, nil
}

// Remove removes a record; it need not exist.
func (r *Records) Remove(name string) error {
	err := os.Remove(filepath.Join(r.path, name+recordSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	return dirsync.Sync(r.path)
}
