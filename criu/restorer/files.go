package restorer

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// restoreFiles restores the files that the tree had open for writing, and the directories of its
// sockets. It runs with the user's rights: neither an image nor a symbolic link may make root write
// files for a user.
func (s *server) restoreFiles() error {
	if len(s.order.Written)+len(s.order.SocketDirs) == 0 {
		return nil
	}
	return fsuid.Rights(s.order.User).DoAfter(s.enter(), func() error {
		for _, room := range s.order.SocketDirs {
			if err := os.MkdirAll(room, 0o700); err != nil {
				return fmt.Errorf("directory of a socket: %w", err)
			}
		}
		for _, written := range s.order.Written {
			if err := written.restore(s.file(written.Content)); err != nil {
				return fmt.Errorf("restore %s: %w", written.Path, err)
			}
		}
		return nil
	})
}

func (w *Written) restore(content *os.File) error {
	fd, err := unix.Open(
		w.Path,
		unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY,
		w.Mode&0o777,
	)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), w.Path)
	return errors.Join(w.fill(file, content), file.Close())
}

// fill writes the content and sets the size.
func (w *Written) fill(file, content *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	if w.Shared {
		// Only the mapped part must exist.
		if info.Size() >= w.Bytes {
			return nil
		}
		return file.Truncate(w.Bytes)
	}
	if w.CopyTo != "" {
		if err := w.copyOld(info.Mode().Perm()); err != nil {
			return fmt.Errorf("copy what it has now to %s (--files=restore makes no copy): %w", w.CopyTo, err)
		}
	}
	if content != nil {
		if err := w.copyContent(file, content); err != nil {
			return err
		}
	}
	if info, err = file.Stat(); err != nil || info.Size() == w.Bytes {
		return err
	}
	if info.Size() < w.Bytes {
		return fmt.Errorf("has %d bytes instead of %d, and its content is not in the image", info.Size(), w.Bytes)
	}
	return file.Truncate(w.Bytes)
}

// copyOld copies the content that is about to be overwritten, and waits until the disk has it.
func (w *Written) copyOld(mode os.FileMode) error {
	from, err := os.OpenFile(w.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := from.Seek(w.CopyFrom, io.SeekStart); err != nil {
		return err
	}
	to, err := os.OpenFile(w.CopyTo, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(w.CopyTo))
	}
	return nil
}

func (w *Written) copyContent(file, content *os.File) error {
	copied, err := io.Copy(file, io.LimitReader(content, w.Bytes))
	if err == nil && copied != w.Bytes {
		err = io.ErrUnexpectedEOF
	}
	return err
}
