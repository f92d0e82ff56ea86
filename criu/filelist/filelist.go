// Package filelist edits the list of open files that CRIU has written, before CRIU reads it again.
// It parses only what it needs: the frames of records, and the path and size of regular files.
//
// It also drops what the root of a tree has asked of a parent that is no more.
//
// And it lists which programs and libraries the processes will open again, so that missing ones
// can be reported before a restore.
//
// CRIU refuses to open a file whose size or mode has changed. Restored files get their old size;
// but another program may be writing to the same file at that moment, for example a clone of the
// same image, and a file that is kept may have any size and mode.
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

// name is the list's file name among CRIU's images.
const name = "files.img"

const (
	// filesMagic is the second magic number of the list.
	filesMagic = 0x56303138
	// maxBytes is an upper bound for the size of a list.
	maxBytes = 256 << 20
)

// Numbers of fields in CRIU's messages.
const (
	entryRegular = 3
	regularName  = 6
	regularSize  = 8
	regularMode  = 10
)

// ForgetSizes makes CRIU open the files at paths whatever their size and mode is. images is the
// directory of the images.
func ForgetSizes(images *os.File, paths map[string]bool) error {
	if len(paths) == 0 {
		return nil
	}
	fd, err := unix.Openat(int(images.Fd()), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	return errors.Join(rewrite(file, paths), file.Close())
}

// rewrite replaces the list in file.
func rewrite(file *os.File, paths map[string]bool) error {
	old, err := io.ReadAll(io.LimitReader(file, maxBytes))
	if err != nil {
		return err
	}
	fresh, err := forgetSizes(old, paths)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(fresh, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(fresh)))
}

// forgetSizes copies a list without the sizes of the files at paths.
func forgetSizes(list []byte, paths map[string]bool) ([]byte, error) {
	if len(list) < imagefile.MagicBytes || binary.LittleEndian.Uint32(list[imagefile.MagicBytes/2:]) != filesMagic {
		return nil, fmt.Errorf("%w: wrong magic number", imagefile.ErrMalformed)
	}
	fresh := append([]byte(nil), list[:imagefile.MagicBytes]...)
	err := imagefile.Records(list, func(record []byte) error {
		entry, err := edit(record, func(number protowire.Number, value []byte) ([]byte, error) {
			if number != entryRegular {
				return value, nil
			}
			return withoutSize(value, paths)
		})
		fresh = binary.LittleEndian.AppendUint32(fresh, uint32(len(entry)))
		fresh = append(fresh, entry...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return fresh, nil
}

// withoutSize copies the record of a regular file, without its size and mode if its path is in
// paths.
func withoutSize(regular []byte, paths map[string]bool) ([]byte, error) {
	ours := false
	var fresh []byte
	err := imagefile.Fields(regular, func(f imagefile.Field) error {
		ours = ours || f.Number == regularName && paths[string(f.Bytes)]
		if f.Number != regularSize && f.Number != regularMode {
			fresh = append(fresh, f.Raw...)
		}
		return nil
	})
	if err != nil || !ours {
		return regular, err
	}
	return fresh, nil
}

// edit copies a message and applies change to its fields of type bytes.
func edit(message []byte, change func(protowire.Number, []byte) ([]byte, error)) ([]byte, error) {
	var fresh []byte
	err := imagefile.Fields(message, func(f imagefile.Field) error {
		if f.Kind != protowire.BytesType {
			fresh = append(fresh, f.Raw...)
			return nil
		}
		changed, err := change(f.Number, f.Bytes)
		fresh = protowire.AppendBytes(protowire.AppendTag(fresh, f.Number, f.Kind), changed)
		return err
	})
	if err != nil {
		return nil, err
	}
	return fresh, nil
}
