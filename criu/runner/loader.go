package runner

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// libraryPaths are the usual library directories, independent of the loader's cache.
var libraryPaths = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
}

// loader returns the path of the program's ELF interpreter, or "" if it needs none.
func loader(program io.ReaderAt) (string, error) {
	file, err := elf.NewFile(program)
	var other *elf.FormatError
	if errors.As(err, &other) {
		return "", nil // not ELF; the kernel knows how to run it
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
		// Resolve links here: absolute ones point elsewhere inside a container.
		return filepath.EvalSymlinks(strings.TrimRight(string(name), "\x00"))
	}
	return "", nil
}

// maxLoader is an upper bound for the length of a loader's path.
const maxLoader = 4096

// runInContainer changes a command so that it works in a container, where the program's loader and
// libraries do not exist. They are found below a descriptor of the host's root directory, which the
// caller must close.
func runInContainer(command *exec.Cmd, program *os.File) (root *os.File, err error) {
	name, err := loader(program)
	if err != nil || name == "" {
		return nil, err
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root = os.NewFile(uintptr(fd), "/")
	top := proc.OwnFile(3 + len(command.ExtraFiles))
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
