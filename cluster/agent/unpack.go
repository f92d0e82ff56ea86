package agent

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// UnpackRole is the argument with which the agent's program unpacks code: as the owner of a launch,
// so that nothing in an archive can touch what is not the owner's.
const UnpackRole = "unpack"

// Limits of unpacked code.
const (
	maxUnpackedBytes = 8 << 30
	maxUnpackedFiles = 200_000
)

// ErrArchive means that packed code has what no launch may bring.
var ErrArchive = errors.New("the packed code is refused")

// unpackAs unpacks code into a directory, in a process of the owner.
func unpackAs(ctx context.Context, dir string, o owner, packed string) error {
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if said, err := asOwner(ctx, dir, o, file, self, UnpackRole); err != nil {
		return fmt.Errorf("unpack code: %w: %s", err, strings.TrimSpace(said))
	}
	return nil
}

// UnpackMain unpacks standard input into the working directory, and returns the exit status.
func UnpackMain() int {
	root, err := os.OpenRoot(".")
	if err == nil {
		err = Unpack(root, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Unpack unpacks a tar archive compressed by zstd below a root. Files, directories and symbolic
// links are unpacked; nothing can lie outside of the root.
func Unpack(root *os.Root, packed io.Reader) error {
	plain, err := zstd.NewReader(packed, zstd.WithDecoderMaxMemory(256<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer plain.Close()
	u := &unpacker{root: root, left: maxUnpackedBytes}
	entries := tar.NewReader(plain)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if err := u.unpack(header, entries); err != nil {
			return fmt.Errorf("%.200q: %w", header.Name, err)
		}
	}
}

// unpacker unpacks entries.
type unpacker struct {
	root  *os.Root
	left  int64
	files int
}

// unpack unpacks one entry.
func (u *unpacker) unpack(header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	if u.files++; u.files > maxUnpackedFiles {
		return fmt.Errorf("%w: more than %d files", ErrArchive, maxUnpackedFiles)
	}
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%w: it lies outside of the directory", ErrArchive)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.makeAll(name)
	case tar.TypeReg:
		return u.file(name, header, content)
	case tar.TypeSymlink:
		if err := u.makeAll(filepath.Dir(name)); err != nil {
			return err
		}
		return u.root.Symlink(header.Linkname, name)
	}
	return fmt.Errorf("%w: want files, directories and symbolic links only", ErrArchive)
}

// makeAll makes a directory and those above it.
func (u *unpacker) makeAll(name string) error {
	if name == "." {
		return nil
	}
	return u.root.MkdirAll(name, 0o755)
}

// file unpacks a regular file. Of its mode only the permissions of the owner count.
func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	if header.Size > u.left {
		return fmt.Errorf("%w: more than %d bytes", ErrArchive, int64(maxUnpackedBytes))
	}
	u.left -= header.Size
	if err := u.makeAll(filepath.Dir(name)); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if header.Mode&0o100 != 0 {
		mode = 0o755
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
