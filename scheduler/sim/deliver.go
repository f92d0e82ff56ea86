package sim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Deliver fills a folder with files, all or none of them: fill writes into a folder beside, and
// only when it is done they move to their places, over files of the same names that were there. The
// folder is made where it is missing, and taken away again if fill fails.
func Deliver(dir string, fill func(staging string) error) (err error) {
	made, err := makeAll(dir)
	defer func() {
		for i := len(made) - 1; err != nil && i >= 0; i-- {
			_ = os.Remove(made[i]) // what is not empty stays
		}
	}()
	if err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
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
			return fmt.Errorf("write %s: there is a folder of that name", filepath.Join(dir, entry.Name()))
		}
	}
	for _, entry := range entries {
		if err := os.Rename(filepath.Join(staging, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// makeAll makes a folder and those above it, and tells which it made, the outermost first.
func makeAll(dir string) (made []string, err error) {
	switch info, err := os.Stat(dir); {
	case err == nil && !info.IsDir():
		return nil, errors.New("there is a file of that name")
	case err == nil:
		return nil, nil
	}
	if above := filepath.Dir(dir); above != dir {
		if made, err = makeAll(above); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return made, err
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
