package dirsync

import (
	"errors"
	"os"
)

// Sync makes the names that a directory has now survive a power cut.
func Sync(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
