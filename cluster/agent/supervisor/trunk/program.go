package trunk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Program is a copy of this program for trunks. An image needs the program of its trunk as it was,
// whatever the file is replaced by from which this process was started.
type Program struct {
	// Path is that of the copy, which replaces one of an earlier process.
	Path string

	mu     sync.Mutex // guards copied: one copy at a time
	copied bool
}

// Link gives the program another name, unless there is a file of that name.
func (p *Program) Link(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if !p.copied {
		if err := p.copy(); err != nil {
			return err
		}
		p.copied = true
	}
	if err := os.Link(p.Path, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// copy makes the copy.
func (p *Program) copy() error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(p.Path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o755) // whatever the umask is
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Rename(p.Path+".new", p.Path)
}
