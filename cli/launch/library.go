package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// ErrNoLibrary is returned if this pos_cli has no libphos.so.
var ErrNoLibrary = errors.New("libphos.so not found")

// Library is the path of libphos.so, and of the directory in which it has the driver's names.
type Library struct {
	File, DriverDir string
}

// FindLibrary looks beside the executable (a build tree) and in ../lib/phos (an installation). It
// resolves links to one version, because a restored program needs the version that it ran with.
func FindLibrary(self string) (Library, error) {
	self, err := filepath.EvalSymlinks(self)
	if err != nil {
		return Library{}, err
	}
	bin := filepath.Dir(self)
	candidates := []Library{
		{filepath.Join(bin, "libphos.so"), filepath.Join(bin, "lib")},
		{filepath.Join(bin, "../lib/phos/current/libphos.so"), filepath.Join(bin, "../lib/phos/current")},
	}
	for _, candidate := range candidates {
		found, err := candidate.resolve()
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return Library{}, err
		}
	}
	return Library{}, fmt.Errorf(
		"%w: neither %s nor %s exists; build it with ./build.sh",
		ErrNoLibrary,
		candidates[0].File,
		candidates[1].File,
	)
}

// resolve returns the paths without symbolic links, or an error if $phos or LD_PRELOAD cannot
// contain them.
func (l Library) resolve() (Library, error) {
	file, err := filepath.EvalSymlinks(l.File)
	if err != nil {
		return Library{}, err
	}
	dir, err := filepath.EvalSymlinks(l.DriverDir)
	if err != nil {
		return Library{}, err
	}
	for _, path := range []string{file, dir} {
		// The shell splits $phos at white space, and quotes in it have no effect. The loader splits
		// LD_PRELOAD at white space and colons.
		if strings.ContainsFunc(
			path,
			func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`:"$\'*?[`+"`", r) },
		) {
			return Library{}, fmt.Errorf(
				"the path %q has characters that $phos cannot contain; move phos elsewhere",
				path,
			)
		}
	}
	return Library{File: file, DriverDir: dir}, nil
}

// variable is an environment variable of a program under phos.
type variable struct {
	name, value string
	// list means that the value goes before an earlier one, with a colon between them.
	list bool
}

// variables returns what a program under phos has in its environment. CUPY_COMPILE_WITH_PTX makes
// CuPy compile to PTX, which every GPU of phos takes. USE_LIBUV=0 keeps PyTorch's process groups
// from using libuv, whose io_uring CRIU cannot save. NCCL may use neither InfiniBand nor NVLink
// SHARP: what they hold is in devices that no checkpoint reaches.
func (l Library) variables() []variable {
	return []variable{
		{"LD_PRELOAD", l.File, true},
		{"LD_LIBRARY_PATH", l.DriverDir, true},
		{"NUMBA_CUDA_DRIVER", filepath.Join(l.DriverDir, "libcuda.so.1"), false},
		{"CUPY_COMPILE_WITH_PTX", "1", false},
		{"USE_LIBUV", "0", false},
		{"NCCL_IB_DISABLE", "1", false},
		{"NCCL_NVLS_ENABLE", "0", false},
	}
}

// ShellCode returns code for sh and its descendants that sets $phos to the variables. The shell's
// own values of the search variables stay in effect.
func (l Library) ShellCode() string {
	var words []string
	for _, v := range l.variables() {
		word := v.name + "=" + v.value
		if v.list {
			word += fmt.Sprintf("${%s:+:$%s}", v.name, v.name)
		}
		words = append(words, word)
	}
	return fmt.Sprintf("export phos=\"%s\"\n", strings.Join(words, " "))
}

// Environment returns the environment with the variables. It has each name once, because programs
// differ in which one of two they read.
func (l Library) Environment(earlier []string) []string {
	result := earlier
	for _, v := range l.variables() {
		value := v.value
		before := lookup(result, v.name)
		if first, _, _ := strings.Cut(before, ":"); v.list && first == v.value {
			continue // pos_cli itself runs under phos
		}
		if v.list && before != "" {
			value += ":" + before
		}
		result = set(result, v.name, value)
	}
	return result
}

// lookup returns a variable of an environment, or "".
func lookup(environment []string, name string) string {
	for _, entry := range environment {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// set returns the environment with a variable, and without earlier values of it.
func set(environment []string, name, value string) []string {
	var result []string
	for _, entry := range environment {
		if !strings.HasPrefix(entry, name+"=") {
			result = append(result, entry)
		}
	}
	return append(result, name+"="+value)
}
