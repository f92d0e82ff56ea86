package restorer

import (
	"os"
	"sync"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// userfaultfds are those that CRIU has made in the processes of the tree, by their pids in the
// image, so that phosd can track what they write. A process that ends or calls exec leaves one
// that tracks nothing.
type userfaultfds struct {
	mu    sync.Mutex // guards files
	files map[int]*os.File
}

// add adds a userfaultfd, unless the kernel cannot track writes with it.
func (t *userfaultfds) add(pid int, userfaultfd *os.File) {
	if writetrack.Enable(userfaultfd) != nil {
		_ = userfaultfd.Close()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = map[int]*os.File{}
	}
	t.files[pid] = userfaultfd
}

// of returns the userfaultfd of a process.
func (t *userfaultfds) of(pid int) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.files[pid]; found != nil {
		return found, nil
	}
	return nil, ckpt.ErrUntracked
}

// forget closes the userfaultfd of a process.
func (t *userfaultfds) forget(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.files[pid]; found != nil {
		_ = found.Close()
		delete(t.files, pid)
	}
}
