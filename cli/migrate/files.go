package migrate

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// files are the ends of a program that lead out of it: its terminal, its pipes and its sockets.
// They are taken from it before it ends.
type files struct {
	byDescriptor map[string]*os.File // by "pid 12 fd 1"
}

// open takes the ends that the image of a running program describes.
func (f *files) open(m *image.Manifest) error {
	f.byDescriptor = map[string]*os.File{}
	for i := range m.Endpoints {
		if err := f.openEnd(&m.Endpoints[i]); err != nil {
			return err
		}
	}
	return nil
}

// openEnd takes one end from any process that has it.
func (f *files) openEnd(end *image.Endpoint) (err error) {
	for _, descriptor := range end.Descriptors {
		var pid, number int
		if count, _ := fmt.Sscanf(descriptor, "pid %d fd %d", &pid, &number); count != 2 {
			continue
		}
		file, failed := take(pid, number, end)
		if failed == nil {
			f.byDescriptor[descriptor] = file
			return nil
		}
		err = failed
	}
	return fmt.Errorf("the program has a %s (%s, %s) that cannot be kept: %w; save and restore it instead",
		end.Kind, end.Key, end.Descriptors, err)
}

// errOther is returned for a file that is not the one of the image: the process has closed it
// since, or it has ended, and its pid is another one's.
var errOther = errors.New("the process has another file there now")

// take returns the very file of an end if the caller may trace the process, or else opens it again.
func take(pid, number int, end *image.Endpoint) (*os.File, error) {
	file, err := proc.Borrow(pid, number)
	if err != nil {
		file, err = reopen(pid, number, end.Kind)
	}
	if err != nil {
		return nil, err
	}
	key, err := keyOf(file)
	if err == nil && key != end.Key {
		err = errOther
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// keyOf returns what an image would call an open terminal, pipe or socket.
func keyOf(file *os.File) (string, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return "", err
	}
	if info.Mode&unix.S_IFMT == unix.S_IFCHR {
		return fmt.Sprintf("tty[%x:%x]", info.Rdev, info.Dev), nil
	}
	return proc.PathOf(int(file.Fd()))
}

// reopen opens a terminal or a pipe that a process has open.
func reopen(pid, number int, kind string) (*os.File, error) {
	flags := unix.O_RDWR
	switch kind {
	case "pipe-read":
		flags = unix.O_RDONLY
	case "pipe-write":
		flags = unix.O_WRONLY
	}
	return proc.Reopen(pid, number, flags|unix.O_NOCTTY)
}

// of returns what was taken of an end; nil: the program has got it since.
func (f *files) of(end *image.Endpoint) *os.File {
	for _, descriptor := range end.Descriptors {
		if file := f.byDescriptor[descriptor]; file != nil {
			return file
		}
	}
	return nil
}

// close closes what was opened: the program has its own.
func (f *files) close() {
	for _, file := range f.byDescriptor {
		_ = file.Close() // opened for the program only
	}
}
