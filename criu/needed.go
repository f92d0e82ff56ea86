package criu

import (
	"errors"
	"io/fs"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/filelist"
)

// Needed returns the programs and libraries that the processes open again.
func (c *CPU) Needed(read func(name string) ([]byte, error)) (found []ckpt.NeededFile, err error) {
	list, err := read(filelist.List)
	if err != nil {
		return nil, err
	}
	replaced, err := read(filelist.Replaced)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	needed, err := filelist.ReadNeeded(list, replaced)
	for _, file := range needed {
		found = append(found, ckpt.NeededFile(file))
	}
	return found, err
}
