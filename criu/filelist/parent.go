package filelist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/phos-gpu/phos/criu/imagefile"
)

// Numbers of fields in the record of a process.
const (
	coreThread        = 5
	threadDeathSignal = 8
)

// maxCoreBytes is an upper bound for the size of a process's record.
const maxCoreBytes = 16 << 20

// ForgetParent makes CRIU restore the root of a tree without the signal that it wanted at the death
// of its parent (PR_SET_PDEATHSIG). That parent is no more. The root would get the signal as soon
// as CRIU ends, which is its parent for a moment.
func ForgetParent(images *os.File, root int) error {
	name := fmt.Sprintf("core-%d.img", root)
	fd, err := unix.Openat(int(images.Fd()), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	return errors.Join(rewriteCore(file), file.Close())
}

// rewriteCore replaces the record in file, if it has such a signal.
func rewriteCore(file *os.File) error {
	old, err := io.ReadAll(io.LimitReader(file, maxCoreBytes))
	if err != nil {
		return err
	}
	fresh, err := forgetParent(old)
	if err != nil || len(fresh) == len(old) {
		return err
	}
	if _, err := file.WriteAt(fresh, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(fresh)))
}

// forgetParent copies the record of a process without its death signal.
func forgetParent(core []byte) ([]byte, error) {
	if len(core) < imagefile.MagicBytes {
		return nil, fmt.Errorf("%w: truncated", imagefile.ErrMalformed)
	}
	fresh := append([]byte(nil), core[:imagefile.MagicBytes]...)
	err := imagefile.Records(core, func(record []byte) error {
		entry, err := edit(record, func(number protowire.Number, value []byte) ([]byte, error) {
			if number != coreThread {
				return value, nil
			}
			return without(value, threadDeathSignal)
		})
		fresh = binary.LittleEndian.AppendUint32(fresh, uint32(len(entry)))
		fresh = append(fresh, entry...)
		return err
	})
	return fresh, err
}

// without copies a message without one of its fields.
func without(message []byte, number protowire.Number) (fresh []byte, err error) {
	err = imagefile.Fields(message, func(f imagefile.Field) error {
		if f.Number != number {
			fresh = append(fresh, f.Raw...)
		}
		return nil
	})
	return fresh, err
}
