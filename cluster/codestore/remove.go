package codestore

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// kept is one file of the store.
type kept struct {
	path  string
	bytes uint64
	used  time.Time
}

// list returns the files of the store, those that were not used for longest first. Uploads that are
// not complete are none.
func (s *Store) list() (all []kept, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || isUpload(entry.Name()) {
			continue
		}
		path := filepath.Join(s.dir, entry.Name())
		all = append(all, kept{path, uint64(info.Size()), s.verifiedOf(path).lastUse(info)})
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	return all, nil
}

// Sweep removes code that is not needed and was not used after a time, and returns how many files
// those were. needed gets a hash in hexadecimal digits. The time is for code that a client was told
// to be there, and whose launch is about to come.
func (s *Store) Sweep(needed func(hash string) bool, last time.Time) (removed int, err error) {
	all, err := s.list()
	if err != nil {
		return 0, err
	}
	for _, each := range all {
		if !needed(filepath.Base(each.path)) && s.verifiedOf(each.path).removeUnused(each.path, last) {
			removed++
		}
	}
	return removed, nil
}

// Shrink removes code until the store has at most some bytes: first what was not used for longest.
// The newest stays.
func (s *Store) Shrink(bytes uint64) error {
	all, err := s.list()
	if err != nil {
		return err
	}
	total := uint64(0)
	for _, each := range all {
		total += each.bytes
	}
	for len(all) > 1 && total > bytes {
		if s.verifiedOf(all[0].path).removeUnused(all[0].path, all[0].used) {
			total -= all[0].bytes
		}
		all = all[1:]
	}
	return nil
}
