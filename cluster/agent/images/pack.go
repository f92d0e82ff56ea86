package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// packer writes directories into an archive.
type packer struct {
	to *tar.Writer
	// leave is told what is left out.
	leave func(what string)
	// linked has the first name of each file of a directory that has several.
	linked map[fileID]string
}

// fileID is a file of the node.
type fileID struct{ device, inode uint64 }

// pack writes directories into an archive, below their numbers. Sockets are left out: without their
// process they are of no use. What the owner cannot read is left out, and leave is told.
func pack(dirs []string, to io.Writer, leave func(what string)) error {
	p := &packer{to: tar.NewWriter(to), leave: leave}
	for i, dir := range dirs {
		p.linked = map[fileID]string{} // the receiver makes no links between directories
		if err := p.directory(strconv.Itoa(i), dir); err != nil {
			return fmt.Errorf("working directory %s: %w", dir, err)
		}
	}
	return p.to.Close()
}

// directory writes all that is in a directory. Nothing is opened through a link.
func (p *packer) directory(name, path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(inside string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = p.entry(root, filepath.Join(name, inside), inside, entry)
		}
		switch {
		case err == nil || inside == ".":
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed since
		case errors.Is(err, fs.ErrPermission):
			p.leave(err.Error())
			return nil
		}
		return err
	})
}

// entry writes one file, directory, link or FIFO.
func (p *packer) entry(root *os.Root, name, inside string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	var target string
	switch info.Mode().Type() {
	case 0, fs.ModeDir, fs.ModeNamedPipe:
	case fs.ModeSymlink:
		if target, err = root.Readlink(inside); err != nil {
			return err
		}
	default:
		return nil
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Format = name, tar.FormatPAX
	header.Uid, header.Uname = 0, "" // the receiver owns all
	header.Gname = ""
	if !info.Mode().IsRegular() {
		return p.to.WriteHeader(header)
	}
	stat := info.Sys().(*syscall.Stat_t) // always so on Linux
	id := fileID{stat.Dev, stat.Ino}
	if first, known := p.linked[id]; known {
		header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		return p.to.WriteHeader(header)
	}
	if err := p.file(root, inside, header); err != nil {
		return err
	}
	if stat.Nlink > 1 {
		p.linked[id] = name
	}
	return nil
}

// file writes a regular file.
func (p *packer) file(root *os.Root, inside string, header *tar.Header) error {
	file, err := root.OpenFile(inside, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := p.to.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(p.to, file, header.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", inside, errChanged)
	}
	return err
}
