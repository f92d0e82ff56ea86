package linelog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// segment is one file of a log.
type segment struct {
	// base is the offset of its first byte.
	base, bytes int64
}

// segmentDigits is the length of a segment's name.
const segmentDigits = 20

// path returns where the segment is.
func (s segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%0*d", segmentDigits, s.base))
}

// segments lists those of a log, oldest first. Files of other names are not of the log.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var found []segment
	for _, entry := range entries {
		base, err := strconv.ParseInt(entry.Name(), 10, 64)
		if err != nil || base < 0 || len(entry.Name()) != segmentDigits || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped now
		}
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		found = append(found, segment{base, info.Size()})
	}
	slices.SortFunc(found, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return found, nil
}
