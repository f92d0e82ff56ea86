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
	About: `Prints shell code for: eval "$(pos_cli --env)". After that,

    env $phos python3 train.py

runs a program with libphos.so in place of the CUDA driver. This works for programs that link the
driver, open it by name, or search the library path for it. Earlier values of LD_PRELOAD and
LD_LIBRARY_PATH are kept, after those of phos.

The code is for sh, bash and zsh. In zsh write env ${=phos}, which splits at spaces. In fish, which
splits at lines only:

    bash -c 'eval "$(pos_cli --env)"; env $phos python3 train.py'

The manual page (man pos_cli) has the variables that libphos.so reads: PHOS_SOCKET, PHOS_LOG and
PHOS_COPY.`,
	Setup: func(*flag.FlagSet) func(context.Context, verb.Streams, []string) error {
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

// errNoLibrary is returned if this pos_cli has no libphos.so.
var errNoLibrary = errors.New("libphos.so not found")

// library is the path of libphos.so, and of the directory in which it has the driver's names.
type library struct {
	file, driverDir string
}

// findLibrary looks beside the executable (a build tree) and in ../lib/phos (an installation). It
// resolves links to one version, because a restored program needs the version that it ran with.
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
		"%w: neither %s nor %s exists; build it with ./build.sh",
		errNoLibrary,
		candidates[0].file,
		candidates[1].file,
	)
}

// resolve returns the paths without symbolic links, or an error if $phos cannot contain them.
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
		// The shell splits $phos at white space, and quotes in it have no effect.
		if strings.ContainsFunc(
			path,
			func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"$\'*?[`+"`", r) },
		) {
			return library{}, fmt.Errorf(
				"the path %q has characters that $phos cannot contain; move phos elsewhere",
				path,
			)
		}
	}
	return library{file: file, driverDir: dir}, nil
}

// shellCode returns code for sh and its descendants. The shell's own values of the two search
// variables stay in effect. CUPY_COMPILE_WITH_PTX makes CuPy compile to PTX, which every GPU of
// phos takes. USE_LIBUV=0 keeps PyTorch's process groups from using libuv, whose io_uring CRIU
// cannot save.
func shellCode(self string) (string, error) {
	found, err := findLibrary(self)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"export phos=\"LD_PRELOAD=%s${LD_PRELOAD:+:$LD_PRELOAD}"+
			" LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"+
			" NUMBA_CUDA_DRIVER=%s CUPY_COMPILE_WITH_PTX=1 USE_LIBUV=0\"\n",
		found.file,
		found.driverDir,
		filepath.Join(found.driverDir, "libcuda.so.1"),
	), nil
}
