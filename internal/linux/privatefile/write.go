package privatefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// Write makes or replaces a file, with mode 0600. Readers see the old content or the new one, also
// after a power cut. It makes missing folders with mode 0700.
func Write(path string, content []byte) error {
	if err := write(path, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func write(path string, content []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	// CreateTemp makes a new file of mode 0600, so the secret is never in one that others have open.
	file, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return dirsync.Sync(folder)
}
