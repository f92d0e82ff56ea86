package archive

import (
	"io"
	"log/slog"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

// Archive is phosd's way to images and to room for making them.
type Archive struct {
	state *statedir.Dir
	log   *slog.Logger
}

// New makes one that works in a state directory, which stays its owner's.
func New(state *statedir.Dir, log *slog.Logger) *Archive { return &Archive{state, log} }

// WorkWithin is ckpt's way to private directories, which take at most half of a budget of memory
// together.
func (a *Archive) WorkWithin(budgetBytes uint64) func(bytes uint64, uid, gid uint32) (ckpt.Work, error) {
	left := budgetBytes / 2
	return func(bytes uint64, uid, gid uint32) (ckpt.Work, error) {
		made, err := a.state.NewWork(bytes, left, uid, gid)
		if err != nil {
			return nil, err
		}
		work := privateWork{made, bytes}
		left -= work.MemoryBytes()
		return work, nil
	}
}

type privateWork struct {
	*statedir.Work
	bytes uint64
}

// Descriptor is the open directory.
func (w privateWork) Descriptor() *os.File { return w.File }

// MemoryBytes is what was asked for, when it is memory.
func (w privateWork) MemoryBytes() uint64 {
	if w.InMemory {
		return w.bytes
	}
	return 0
}

// Library keeps a copy of a library that is no longer where it was.
func (a *Archive) Library(saved image.SavedFile, content io.Reader) (*os.File, error) {
	return a.state.Library(saved.Hash, content)
}
