// Package filelist edits the list of open files that CRIU has written, before CRIU reads it again. It knows of that list what
// it must: the frame of records, and of a regular file its name and its size.
//
// It also reads which programs and libraries will be opened again, for whoever wants to know beforehand whether they are there.
//
// CRIU refuses to open a file that is not as long as it was. Files that are brought back are made that long; but when
// another program writes into the same file at that moment, as a clone of the same image does, the length is past already.
package filelist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// name is the list's file among CRIU's images.
const name = "files.img"

const (
	magicBytes = 8
	// commonMagic begins every image of CRIU's, filesMagic follows in this one.
	commonMagic = 0x54564319
	filesMagic  = 0x56303138
	frameBytes  = 4
	// longest is more than any list has.
	longest = 256 << 20
)

// Numbers of fields in CRIU's messages.
const (
	entryRegular = 3
	regularName  = 6
	regularSize  = 8
)

// ErrMalformed means that a list is not what CRIU writes.
var ErrMalformed = errors.New("list of open files: malformed")

// ForgetSizes makes CRIU open files of some paths whatever their length is. Images is the directory of the images.
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

func rewrite(file *os.File, paths map[string]bool) error {
	old, err := io.ReadAll(io.LimitReader(file, longest))
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

// forgetSizes copies a list without the sizes of those files.
func forgetSizes(list []byte, paths map[string]bool) ([]byte, error) {
	order := binary.LittleEndian
	if len(list) < magicBytes || order.Uint32(list) != commonMagic || order.Uint32(list[4:]) != filesMagic {
		return nil, fmt.Errorf("%w: it begins with another mark", ErrMalformed)
	}
	fresh := append([]byte(nil), list[:magicBytes]...)
	for rest := list[magicBytes:]; len(rest) > 0; {
		if len(rest) < frameBytes {
			return nil, fmt.Errorf("%w: cut off", ErrMalformed)
		}
		bytes := order.Uint32(rest)
		if uint64(bytes) > uint64(len(rest)-frameBytes) || bytes > math.MaxInt32 {
			return nil, fmt.Errorf("%w: cut off", ErrMalformed)
		}
		entry, err := edit(rest[frameBytes:frameBytes+bytes], func(number protowire.Number, value []byte) ([]byte, error) {
			if number != entryRegular {
				return value, nil
			}
			return withoutSize(value, paths)
		})
		if err != nil {
			return nil, err
		}
		fresh = order.AppendUint32(fresh, uint32(len(entry)))
		fresh = append(fresh, entry...)
		rest = rest[frameBytes+bytes:]
	}
	return fresh, nil
}

// withoutSize copies what is said of a regular file, without its size if it is one of those.
func withoutSize(regular []byte, paths map[string]bool) ([]byte, error) {
	ours := false
	if _, err := edit(regular, func(number protowire.Number, value []byte) ([]byte, error) {
		ours = ours || number == regularName && paths[string(value)]
		return value, nil
	}); err != nil || !ours {
		return regular, err
	}
	var fresh []byte
	for rest := regular; len(rest) > 0; {
		number, _, bytes := protowire.ConsumeField(rest)
		if number != regularSize {
			fresh = append(fresh, rest[:bytes]...)
		}
		rest = rest[bytes:]
	}
	return fresh, nil
}

// edit copies a message; those of its fields that are bytes may change on the way.
func edit(message []byte, change func(protowire.Number, []byte) ([]byte, error)) ([]byte, error) {
	var fresh []byte
	for rest := message; len(rest) > 0; {
		number, kind, tagBytes := protowire.ConsumeTag(rest)
		if tagBytes < 0 {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(tagBytes))
		}
		bytes := protowire.ConsumeFieldValue(number, kind, rest[tagBytes:])
		if bytes < 0 {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(bytes))
		}
		field := rest[:tagBytes+bytes]
		rest = rest[tagBytes+bytes:]
		if kind != protowire.BytesType {
			fresh = append(fresh, field...)
			continue
		}
		value, _ := protowire.ConsumeBytes(field[tagBytes:])
		changed, err := change(number, value)
		if err != nil {
			return nil, err
		}
		fresh = protowire.AppendBytes(protowire.AppendTag(fresh, number, kind), changed)
	}
	return fresh, nil
}
