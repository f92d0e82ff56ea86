package sim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Deliver writes files to a folder atomically: fill writes to a staging folder, and only when it
// has succeeded the files are moved into place, replacing files of the same names. Missing folders
// are created, and removed again if fill fails.
func Deliver(dir string, fill func(staging string) error) (err error) {
	made, err := makeAll(dir)
	defer func() {
		for i := len(made) - 1; err != nil && i >= 0; i-- {
			_ = os.Remove(made[i]) // a folder that is not empty stays
		}
	}()
	if err != nil {
		return err
	}
	staging, err := os.MkdirTemp(dir, ".unfinished-")
	if err != nil {
		return fmt.Errorf("write into folder %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	if err := fill(staging); err != nil {
		return err
	}
	entries, err := os.ReadDir(staging)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if info, err := os.Lstat(filepath.Join(dir, entry.Name())); err == nil && info.IsDir() {
			return fmt.Errorf("write %s: a folder of that name exists", filepath.Join(dir, entry.Name()))
		}
	}
	for _, entry := range entries {
		if err := os.Rename(filepath.Join(staging, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// makeAll creates a folder and its missing parents, and returns those that it created, outermost
// first.
func makeAll(dir string) (made []string, err error) {
	switch info, err := os.Stat(dir); {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("make folder %s: a file of that name exists", dir)
	case err == nil:
		return nil, nil
	}
	if above := filepath.Dir(dir); above != dir {
		if made, err = makeAll(above); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return made, fmt.Errorf("make folder: %w", err)
	}
	return append(made, dir), nil
}

// writeFile writes a file of a staging folder.
func writeFile(dir, name string, write func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
