package freezer

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

func pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Find lists groups that are there, by a pattern of their names: what a dead phosd and a dead watchdog have left.
// Where their processes came from is known no more; they go back to where the group is.
func Find(pattern string) ([]*Group, error) {
	top, err := hierarchy()
	if err != nil {
		return nil, err
	}
	var found []*Group
	err = filepath.WalkDir(top.point, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if match, err := filepath.Match(pattern, entry.Name()); err != nil || !match {
			return err
		}
		found = append(found, &Group{Path: path, parent: filepath.Dir(path)})
		return fs.SkipDir
	})
	return found, err
}
