package ckpt

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/phos-gpu/phos/ckpt/image"
)

// NeededFile is a program or library of the host that the processes of an image open again.
type NeededFile struct {
	Path    string
	BuildID []byte
}

// Examiner is a CPU that can list the needed files of its images before a restore.
type Examiner interface {
	// Needed reads files of a dump by their names; read returns fs.ErrNotExist if there is none.
	Needed(read func(name string) ([]byte, error)) ([]NeededFile, error)
}

// maxListBytes is an upper bound for a list of files.
const maxListBytes = 64 << 20

// Needed returns the needed files of all processes; none if the CPU is not an Examiner.
func (s *Source) Needed(cpu CPU) (found []NeededFile, err error) {
	examiner, ok := cpu.(Examiner)
	if !ok || s.Manifest.CPU.Tree == "" {
		return nil, nil
	}
	hash, err := image.ParseHash(s.Manifest.CPU.Tree)
	if err != nil {
		return nil, err
	}
	tree, err := s.Reader.Tree(hash)
	if err != nil {
		return nil, err
	}
	for _, root := range rootsOf(s.Manifest) {
		needed, err := examiner.Needed(func(name string) ([]byte, error) {
			return s.readFile(tree, strconv.Itoa(root)+"/"+name)
		})
		if err != nil {
			return nil, fmt.Errorf("files of pid %d: %w", root, err)
		}
		found = append(found, needed...)
	}
	return found, nil
}

// readFile returns the content of a small file of a tree.
func (s *Source) readFile(tree *image.Tree, name string) ([]byte, error) {
	for _, entry := range tree.Entries {
		if entry.Name != name || entry.Kind != image.File {
			continue
		}
		if entry.Bytes > maxListBytes {
			return nil, fmt.Errorf("%w: %s has %d bytes", image.ErrMalformed, name, entry.Bytes)
		}
		content := make([]byte, entry.Bytes)
		if _, err := s.Reader.Open(entry).ReadAt(content, 0); err != nil {
			return nil, err
		}
		return content, nil
	}
	return nil, fs.ErrNotExist
}
