package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/engine"
)

// bringBackFiles makes the files that the tree had open for writing what they were. It is done with the user's rights: an
// image, or a link that somebody has put where a file was, must not make root write for a user.
func (k *keeper) bringBackFiles() error {
	if len(k.order.Written) == 0 {
		return nil
	}
	return as(k.order.User, func() error {
		for _, written := range k.order.Written {
			if err := written.bringBack(k.file(written.Content)); err != nil {
				return fmt.Errorf("bring back %s: %w", written.Path, err)
			}
		}
		return nil
	})
}

func (w *Written) bringBack(content *os.File) error {
	fd, err := unix.Open(w.Path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, w.Mode&0o777)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), w.Path)
	return errors.Join(w.fill(file, content), file.Close())
}

func (w *Written) fill(file, content *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("is no regular file any more")
	}
	if content != nil {
		if err := w.copy(file, content); err != nil {
			return err
		}
	}
	if info, err = file.Stat(); err != nil || info.Size() == w.Bytes {
		return err
	}
	if info.Size() < w.Bytes {
		return fmt.Errorf("has %d bytes; it had %d, which are not in the image", info.Size(), w.Bytes)
	}
	return file.Truncate(w.Bytes)
}

func (w *Written) copy(file, content *os.File) error {
	copied, err := io.Copy(file, io.LimitReader(content, w.Bytes))
	if err == nil && copied != w.Bytes {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// as runs something on a thread that has a user's rights to files, and no others; the thread ends with it.
func as(user engine.User, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := assume(user)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// assume changes whose files the calling thread may open; the other threads remain root's.
func assume(user engine.User) error {
	if user.UID == 0 {
		return nil
	}
	if err := setGroups(user.Groups); err != nil {
		return fmt.Errorf("groups of user %d: %w", user.UID, err)
	}
	for _, step := range []struct {
		call uintptr
		id   uint32
	}{{unix.SYS_SETFSGID, user.GID}, {unix.SYS_SETFSUID, user.UID}} {
		_, _, _ = unix.RawSyscall(step.call, uintptr(step.id), 0, 0)
		// These calls tell of no error; asking again tells what holds.
		if now, _, _ := unix.RawSyscall(step.call, ^uintptr(0), 0, 0); uint32(now) != step.id {
			return fmt.Errorf("rights of user %d: %w", user.UID, unix.EPERM)
		}
	}
	return nil
}
