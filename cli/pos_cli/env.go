package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/phos-gpu/phos/cli/verb"
)

var envVerb = verb.Verb{
	Name:    "env",
	Summary: "print shell code that sets $phos",
	About: `Prints shell code for: eval "$(pos_cli --env)". After it,

    env $phos python3 train.py

runs a program with libphos.so in the place of the CUDA driver: for programs that link the driver, open it by name, or
search the library path for it. What LD_PRELOAD and LD_LIBRARY_PATH held when --env was called stays in effect behind it.
The code is for sh, bash and zsh; in zsh say env ${=phos}, which splits at spaces.
fish splits at lines only:

    bash -c 'eval "$(pos_cli --env)"; env $phos python3 train.py'

libphos.so reads from the program's environment PHOS_SOCKET, PHOS_LOG and PHOS_COPY; see the manual page.`,
	Prepare: func(*flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return func(_ context.Context, to verb.Streams, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			code, err := shellCode(self)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(to.Out, code)
			return err
		}
	},
}

// errNoLibrary means that no libphos.so belongs to this pos_cli.
var errNoLibrary = errors.New("libphos.so is not found")

// library is where libphos.so stands, and the directory in which it goes by the driver's names.
type library struct {
	file, driverDir string
}

// findLibrary looks beside the executable (a build tree) and in ../lib/phos (an installation). The
// path it returns is that of one version, never a link to the newest: a checkpointed program must
// find again what it ran with.
func findLibrary(self string) (library, error) {
	self, err := filepath.EvalSymlinks(self)
	if err != nil {
		return library{}, err
	}
	bin := filepath.Dir(self)
	candidates := []library{
		{filepath.Join(bin, "libphos.so"), filepath.Join(bin, "lib")},
		{filepath.Join(bin, "../lib/phos/current/libphos.so"), filepath.Join(bin, "../lib/phos/current")},
	}
	for _, candidate := range candidates {
		found, err := candidate.resolve()
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return library{}, err
		}
	}
	return library{}, fmt.Errorf(
		"%w: neither %s nor %s; build it with ./build.sh",
		errNoLibrary,
		candidates[0].file,
		candidates[1].file,
	)
}

func (l library) resolve() (library, error) {
	file, err := filepath.EvalSymlinks(l.file)
	if err != nil {
		return library{}, err
	}
	dir, err := filepath.EvalSymlinks(l.driverDir)
	if err != nil {
		return library{}, err
	}
	for _, path := range []string{file, dir} {
		// $phos is split at white space by the shell, with no way to quote.
		if strings.ContainsFunc(
			path,
			func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"$\'*?[`+"`", r) },
		) {
			return library{}, fmt.Errorf("the path %q holds characters that $phos cannot; move phos elsewhere", path)
		}
	}
	return library{file: file, driverDir: dir}, nil
}

// shellCode is for sh and its descendants. What the shell had in the two search variables stays in
// effect. CuPy is told to compile into PTX, which every GPU of phos takes, and not into machine
// code; PyTorch, to keep the store of its process groups by ordinary calls: libuv keeps an
// io_uring, which CRIU cannot save.
func shellCode(self string) (string, error) {
	found, err := findLibrary(self)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"export phos=\"LD_PRELOAD=%s${LD_PRELOAD:+:$LD_PRELOAD} LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NUMBA_CUDA_DRIVER=%s CUPY_COMPILE_WITH_PTX=1 USE_LIBUV=0\"\n",
		found.file,
		found.driverDir,
		filepath.Join(found.driverDir, "libcuda.so.1"),
	), nil
}
