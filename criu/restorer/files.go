package restorer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// restoreFiles restores the files that the tree had open for writing, and the directories of its
// sockets. It runs with the user's rights: neither an image nor a symbolic link may make root write
// files for a user.
func (s *server) restoreFiles(ctx context.Context) error {
	if len(s.order.Written)+len(s.order.SocketDirs) == 0 {
		return nil
	}
	return fsuid.Rights(s.order.User).DoAfter(s.enter(), func() error {
		for _, room := range s.order.SocketDirs {
			if err := os.MkdirAll(room, 0o700); err != nil {
				return fmt.Errorf("directory of a socket: %w", err)
			}
		}
		return writeFiles(ctx, s.order.Written, s.file)
	})
}

// target is a file to restore. It stays open from the check until it is written.
type target struct {
	*Written
	// file is nil if there is none yet.
	file *os.File
	// same is set if the file has its saved content already.
	same bool
}

// writeFiles restores files. It checks all of them before it writes any, so that a restore that has
// decided about another state can decide again: the error is savedfile.ErrChanged then.
func writeFiles(ctx context.Context, all []Written, content func(index int) *os.File) error {
	targets := make([]target, len(all))
	defer func() {
		for i := range targets {
			if targets[i].file != nil {
				_ = targets[i].file.Close()
			}
		}
	}()
	for i := range all {
		targets[i].Written = &all[i]
		if err := targets[i].open(ctx); err != nil {
			return fmt.Errorf("restore %s: %w", all[i].Path, err)
		}
	}
	for i := range targets {
		t := &targets[i]
		err := t.write(ctx, content(t.Content))
		if t.file != nil {
			err = errors.Join(err, t.file.Close())
			t.file = nil
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", t.Path, err)
		}
	}
	return nil
}

// openFlags are those of every file. The path is the user's: it may name a link, a pipe or a
// terminal.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// open opens the file, and checks that it is the one that the restore has decided about.
func (t *target) open(ctx context.Context) error {
	fd, err := unix.Open(t.Path, unix.O_RDWR|openFlags, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(t.Path, unix.O_WRONLY|openFlags, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.Seen != nil && !t.Seen.Missing:
		return savedfile.ErrChanged
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	t.file = os.NewFile(uintptr(fd), t.Path)
	info, err := t.file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case t.Seen == nil || t.Shared:
		return nil
	}
	if err := t.Seen.Check(t.file); err != nil {
		return err
	}
	t.same = t.Seen.Hash != "" && t.Seen.Bytes == t.Bytes && t.Seen.HashBytes == uint64(t.Bytes)
	return t.Seen.CheckContent(ctx, t.file)
}

// errWritten is returned if a file was written at the same time. Other files may have been restored
// by then, so that the restore cannot just decide again.
var errWritten = errors.New("another process wrote it while files were restored; restore the image again")

// write restores the file, if it is still the one that was checked.
func (t *target) write(ctx context.Context, content *os.File) error {
	if t.file == nil {
		flags := unix.O_RDWR | unix.O_CREAT | openFlags
		if t.Seen != nil {
			flags |= unix.O_EXCL
		}
		fd, err := unix.Open(t.Path, flags, t.Mode&0o777)
		if errors.Is(err, fs.ErrExist) {
			return errWritten
		}
		if err != nil {
			return err
		}
		t.file = os.NewFile(uintptr(fd), t.Path)
	} else if err := t.checkAgain(); err != nil {
		return err
	}
	if t.same {
		if content != nil {
			_ = content.Close() // ends its writer
		}
		return nil
	}
	return t.fill(ctx, content)
}

// checkAgain returns an error if the file was written since it was checked.
func (t *target) checkAgain() error {
	if t.Seen == nil || t.Shared {
		return nil
	}
	err := t.Seen.Check(t.file)
	if errors.Is(err, savedfile.ErrChanged) {
		return errWritten
	}
	return err
}

// fill writes the content and sets the size.
func (t *target) fill(ctx context.Context, content *os.File) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if t.Shared {
		// Only the mapped part must exist.
		if info.Size() >= t.Bytes {
			return nil
		}
		return t.file.Truncate(t.Bytes)
	}
	if t.CopyTo != "" {
		if err := t.copyOld(ctx); err != nil {
			return fmt.Errorf("copy what it has now to %s (--files=restore makes no copy): %w", t.CopyTo, err)
		}
	}
	if content != nil {
		if err := t.copyContent(ctx, content); err != nil {
			return err
		}
	}
	if info, err = t.file.Stat(); err != nil || info.Size() == t.Bytes {
		return err
	}
	if info.Size() < t.Bytes {
		return fmt.Errorf("has %d bytes instead of %d, and its content is not in the image", info.Size(), t.Bytes)
	}
	return t.file.Truncate(t.Bytes)
}

// copyContent writes the saved content.
func (t *target) copyContent(ctx context.Context, content *os.File) error {
	copied, err := io.Copy(t.file, io.LimitReader(savedfile.Cancellable(ctx, content), t.Bytes))
	if err == nil && copied != t.Bytes {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// partSuffix is the suffix of a copy that is not complete. A restorer that is killed leaves it.
const partSuffix = ".part"

// copyOld copies the content that is about to be overwritten, and waits until the disk has it. The
// copy gets its name when it is complete.
func (t *target) copyOld(ctx context.Context) error {
	part := t.CopyTo + partSuffix
	fd, err := unix.Open(part, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), part)
	old := io.NewSectionReader(t.file, t.CopyFrom, math.MaxInt64-t.CopyFrom)
	_, err = io.Copy(to, savedfile.Cancellable(ctx, old))
	if err == nil {
		err = t.checkAgain() // what was written after the copy would be lost
	}
	if err == nil {
		err = protectCopy(to, t.file)
	}
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err := renameNew(part, t.CopyTo); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}
