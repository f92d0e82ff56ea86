package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrArchive means that an archive has what no working directory has.
var ErrArchive = errors.New("the archive of the working directories is refused")

// unpacker writes what an archive has into directories.
type unpacker struct {
	roots []*os.Root
	// dirs get their modes and times at the end: until then they must be writable.
	dirs []unpackedDir
}

// unpackedDir is a directory, and what the archive says of it.
type unpackedDir struct {
	root   *os.Root
	name   string
	header *tar.Header
}

// unpack writes an archive into empty directories. Nothing lies outside of them.
func unpack(dirs []string, from io.Reader) error {
	u := &unpacker{}
	defer u.close()
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		u.roots = append(u.roots, root)
	}
	entries := tar.NewReader(from)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return u.finish()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if err := u.entry(header, entries); err != nil {
			return fmt.Errorf("%.200q: %w", header.Name, err)
		}
	}
}

func (u *unpacker) close() {
	for _, root := range u.roots {
		_ = root.Close() // nothing is written by it
	}
}

// place returns where a name of the archive is.
func (u *unpacker) place(name string) (*os.Root, string, error) {
	first, inside, _ := strings.Cut(filepath.Clean(name), "/")
	number, err := strconv.Atoi(first)
	if err != nil || number < 0 || number >= len(u.roots) {
		return nil, "", fmt.Errorf("%w: it is in no working directory", ErrArchive)
	}
	if inside == "" {
		inside = "."
	}
	if !filepath.IsLocal(inside) {
		return nil, "", fmt.Errorf("%w: it lies outside of the directory", ErrArchive)
	}
	return u.roots[number], inside, nil
}

// entry writes one entry.
func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	root, name, err := u.place(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.directory(root, name, header)
	case tar.TypeSymlink:
		if err := root.Symlink(header.Linkname, name); err != nil {
			return err
		}
		return setTime(root, name, header)
	case tar.TypeLink:
		return u.link(root, name, header)
	case tar.TypeReg:
		return u.file(root, name, header, content)
	case tar.TypeFifo:
		return fifo(root, name, header)
	}
	return fmt.Errorf("%w: it is no file, directory, link or FIFO", ErrArchive)
}

// directory makes a directory.
func (u *unpacker) directory(root *os.Root, name string, header *tar.Header) error {
	u.dirs = append(u.dirs, unpackedDir{root, name, header})
	if name == "." {
		return nil
	}
	return root.Mkdir(name, 0o700)
}

// link gives a file another name.
func (u *unpacker) link(root *os.Root, name string, header *tar.Header) error {
	other, first, err := u.place(header.Linkname)
	if err != nil {
		return err
	}
	if other != root {
		return fmt.Errorf("%w: it is a link into another working directory", ErrArchive)
	}
	return root.Link(first, name)
}

// file writes a regular file.
func (u *unpacker) file(root *os.Root, name string, header *tar.Header, content io.Reader) (err error) {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := writeSparse(file, content, header.Size); err != nil {
		return err
	}
	if err := file.Chmod(modeOf(header)); err != nil {
		return err
	}
	return setTime(root, name, header)
}

// holeBytes is how many zeros in a row become a hole.
const holeBytes = 64 << 10

// writeSparse writes a file without its zeros.
func writeSparse(file *os.File, content io.Reader, size int64) error {
	buffer, zeros := make([]byte, holeBytes), make([]byte, holeBytes)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(content, buffer[:min(int64(len(buffer)), size-at)])
		if err != nil {
			return err
		}
		if !bytes.Equal(buffer[:n], zeros[:n]) {
			if _, err := file.WriteAt(buffer[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return file.Truncate(size)
}

// fifo makes a FIFO.
func fifo(root *os.Root, name string, header *tar.Header) error {
	err := inParent(root, name, func(parent int, last string) error { return unix.Mkfifoat(parent, last, 0o600) })
	if err == nil {
		err = root.Chmod(name, modeOf(header))
	}
	if err != nil {
		return err
	}
	return setTime(root, name, header)
}

// inParent calls a function with the directory of a name, and the last part of the name.
func inParent(root *os.Root, name string, do func(parent int, last string) error) error {
	parent, err := root.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	return do(int(parent.Fd()), filepath.Base(name))
}

// modeOf returns the mode that a file gets.
func modeOf(header *tar.Header) fs.FileMode {
	const kept = fs.ModePerm | fs.ModeSetgid | fs.ModeSticky
	return header.FileInfo().Mode() & kept
}

// setTime sets the time of the last change, by which programs know their files, of a link its own.
func setTime(root *os.Root, name string, header *tar.Header) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(header.ModTime.UnixNano())}
	return inParent(root, name, func(parent int, last string) error {
		return unix.UtimesNanoAt(parent, last, times, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// finish gives directories their modes and times, those inside before those around them.
func (u *unpacker) finish() error {
	for _, dir := range slices.Backward(u.dirs) {
		if err := dir.root.Chmod(dir.name, modeOf(dir.header)); err != nil {
			return err
		}
		if err := setTime(dir.root, dir.name, dir.header); err != nil {
			return err
		}
	}
	return nil
}
