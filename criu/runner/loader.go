package runner

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// libraryPaths are where the libraries of a machine lie, whatever its loader's cache says.
var libraryPaths = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
}

// loader is the program that loads another one, as it says itself; empty for one that needs none.
func loader(program io.ReaderAt) (string, error) {
	file, err := elf.NewFile(program)
	var other *elf.FormatError
	if errors.As(err, &other) {
		return "", nil // the kernel knows what it is
	}
	if err != nil {
		return "", err
	}
	for _, header := range file.Progs {
		if header.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, min(header.Filesz, maxLoader))
		if _, err := header.ReadAt(name, 0); err != nil {
			return "", err
		}
		// Links on the way may be absolute: they lead elsewhere in a container.
		return filepath.EvalSymlinks(strings.TrimRight(string(name), "\x00"))
	}
	return "", nil
}

// maxLoader is longer than any loader's path.
const maxLoader = 4096

// goAbroad makes a command one that works where the program's loader and libraries are not: in a
// container. They are found below a descriptor of the root directory here, which is the caller's to
// close.
func goAbroad(command *exec.Cmd, program *os.File) (root *os.File, err error) {
	name, err := loader(program)
	if err != nil || name == "" {
		return nil, err
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root = os.NewFile(uintptr(fd), "/")
	top := fmt.Sprintf("/proc/self/fd/%d", 3+len(command.ExtraFiles))
	command.ExtraFiles = append(command.ExtraFiles, root)
	paths := make([]string, len(libraryPaths))
	for i, each := range libraryPaths {
		paths[i] = path.Join(top, each)
	}
	command.Args = append(
		[]string{path.Join(top, name), "--inhibit-cache", "--library-path", strings.Join(paths, ":"), command.Path},
		command.Args[1:]...)
	command.Path = command.Args[0]
	return root, nil
}
