package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// readTree reads the list of CRIU's files of all processes.
func readTree(reader *contents.Reader, hash string) (*image.Tree, error) {
	name, err := image.ParseHash(hash)
	if err != nil {
		return nil, err
	}
	return reader.Tree(name)
}

// unpacking is the files of one tree's processes in an image.
type unpacking struct {
	reader *contents.Reader
	tree   *image.Tree
	root   int
	// composed reports whether the CPU writes a file itself.
	composed func(name string) bool
	// trusted is set if what is composed is surely small.
	trusted bool
}

// maxComposedBytes is an upper bound for the room of composed files of one process: its memory
// comes later, but for small mappings.
const maxComposedBytes = 256 << 20

// files calls each for every file, by its name in the directory of the images.
func (u *unpacking) files(each func(name string, entry image.Entry) error) error {
	prefix := strconv.Itoa(u.root) + "/"
	for _, entry := range u.tree.Entries {
		if name, mine := strings.CutPrefix(entry.Name, prefix); mine {
			if err := each(name, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// bytes returns the room that the files need. Each file takes whole pages: a process with thousands
// of threads has as many small files. Of composed files it is an estimate: processes may share
// memory with their children, which does not come later.
func (u *unpacking) bytes() (bytes uint64) {
	const pageBytes = 4096
	processes, composed := 0, uint64(0)
	_ = u.files(func(name string, entry image.Entry) error {
		if u.composed(name) {
			composed += entry.Bytes + pageBytes
		} else {
			bytes += entry.Bytes + pageBytes
		}
		if strings.HasPrefix(name, "mm-") {
			processes++
		}
		return nil
	})
	if processes == 1 && u.trusted {
		composed = min(composed, maxComposedBytes)
	}
	return bytes + composed
}

// MaxParents is how many images may lie below those of a dump: those of its precopy, and those of
// an older precopy.
const MaxParents = 2

// splitParents returns how many directories of parent images a name has in front, and the rest.
func splitParents(name string) (depth int, rest string) {
	for strings.HasPrefix(name, ParentImages+"/") {
		depth, name = depth+1, strings.TrimPrefix(name, ParentImages+"/")
	}
	return depth, name
}

// into writes the files, but for those that are composed, into a private directory and verifies
// them.
func (u *unpacking) into(ctx context.Context, dir *os.File) error {
	var work []func(context.Context) error
	// directories are that of the images, that of their parent images, and so on.
	directories := []*os.File{dir}
	defer func() {
		for _, each := range directories[1:] {
			_ = each.Close()
		}
	}()
	err := u.files(func(file string, entry image.Entry) (err error) {
		if u.composed(file) {
			return nil
		}
		depth, file := splitParents(file)
		if depth > MaxParents {
			return fmt.Errorf("%w: %q has too many parents", image.ErrMalformed, entry.Name)
		}
		for len(directories) <= depth {
			made, err := MakeParentImages(directories[len(directories)-1])
			if err != nil {
				return err
			}
			directories = append(directories, made)
		}
		where := directories[depth]
		if entry.Kind != image.File || file == "" || file[0] == '.' || strings.ContainsAny(file, "/\x00") {
			return fmt.Errorf("%w: %q is not a valid name of a CRIU file", image.ErrMalformed, entry.Name)
		}
		work = append(work, func(ctx context.Context) error {
			return unpackFile(ctx, u.reader, entry, where, file)
		})
		return nil
	})
	if err != nil {
		return err
	}
	return pool.Run(ctx, work...)
}

// MakeParentImages creates ParentImages in a private directory, with the same owner.
func MakeParentImages(into *os.File) (*os.File, error) {
	var owner unix.Stat_t
	if err := unix.Fstat(int(into.Fd()), &owner); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(int(into.Fd()), ParentImages, 0o700); err != nil {
		return nil, &os.PathError{Op: "make", Path: ParentImages, Err: err}
	}
	earlier, err := OpenParentImages(into)
	if err != nil {
		return nil, err
	}
	if err := earlier.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return nil, errors.Join(err, earlier.Close())
	}
	return earlier, nil
}

// CreateImage creates a file of a private directory, with the owner of the directory.
func CreateImage(into *os.File, name string) (*os.File, error) {
	var owner unix.Stat_t
	if err := unix.Fstat(int(into.Fd()), &owner); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(int(into.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	if err := file.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unpackFile writes one file.
func unpackFile(ctx context.Context, reader *contents.Reader, entry image.Entry, into *os.File, name string) error {
	file, err := CreateImage(into, name)
	if err == nil {
		err = errors.Join(reader.Copy(ctx, entry, file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
}

// OpenParentImages opens ParentImages; the error is fs.ErrNotExist if there was no precopy.
func OpenParentImages(dir *os.File) (*os.File, error) {
	fd, err := unix.Openat(
		int(dir.Fd()),
		ParentImages,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0,
	)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: ParentImages, Err: err}
	}
	return os.NewFile(uintptr(fd), ParentImages), nil
}

// namesIn lists a directory.
func namesIn(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}

// openPlain opens a file that CRIU wrote. It accepts only regular files of this user or of root,
// with one link.
func openPlain(dir *os.File, name string, uid uint32) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	var info unix.Stat_t
	err = unix.Fstat(fd, &info)
	if err == nil && (info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink != 1 || info.Uid != uid && info.Uid != 0) {
		err = errNotPlain
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: name, Err: err}, file.Close())
	}
	return file, nil
}

// errNotPlain is returned when a private directory contains a file that CRIU did not write.
var errNotPlain = errors.New("not a regular file of this user")

// emptyDirectory removes the files of a failed dump from a work directory, and the parent images
// unless they are kept.
func emptyDirectory(dir *os.File, keepParent bool) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		how := 0
		if name == ParentImages && keepParent {
			continue
		}
		if name == ParentImages {
			if err := emptyParentImages(dir); err != nil {
				return err
			}
			how = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(int(dir.Fd()), name, how); err != nil {
			return &os.PathError{Op: "remove", Path: name, Err: err}
		}
	}
	return nil
}

// emptyParentImages removes the files of the parent images, but not their directory.
func emptyParentImages(dir *os.File) error {
	earlier, err := OpenParentImages(dir)
	if err != nil {
		return err
	}
	return errors.Join(emptyDirectory(earlier, false), earlier.Close())
}
