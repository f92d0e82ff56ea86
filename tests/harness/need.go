package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Need skips the test if missing is not nil, or fails it if REQUIRE names the need.
func Need(t testing.TB, need string, missing error) {
	t.Helper()
	if missing == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), need) {
		t.Fatalf("REQUIRE names %s: %v", need, missing)
	}
	t.Skipf("needs %s: %v", need, missing)
}

// RealGPU skips a test of a property that real GPUs and their backend do not have.
func RealGPU(t testing.TB, property string) {
	t.Helper()
	if _, real := Driver(); real || Nested() {
		t.Skipf("on real GPUs, %s", property)
	}
}

// BlankGPU skips a test of blank GPUs where all daemons have real ones. Over a second phosd it
// runs.
func BlankGPU(t testing.TB) {
	t.Helper()
	if library, real := Driver(); real && library == "" {
		t.Skip("on real GPUs results are computed, and other tests compare them")
	}
}

// Nested reports whether every Start is a StartNested.
func Nested() bool { return os.Getenv(NestedVariable) != "" }

// Root returns nil if the test runs as root.
func Root() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("phosd runs as root; this is user %d", os.Geteuid())
	}
	return nil
}

// Built returns nil if build.sh has built phos.
func Built() error {
	for _, name := range []string{"pos_cli", "phosd", "libphos.so", "lib/libcuda.so.1"} {
		if _, err := os.Stat(filepath.Join(Bin(), name)); err != nil {
			return fmt.Errorf("%w; run ./build.sh", err)
		}
	}
	return nil
}

// Tool returns the program that an environment variable of build.sh names. The error says how to
// get it.
func Tool(variable string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		if why := os.Getenv(variable + "_MISSING"); why != "" {
			return "", fmt.Errorf("%s", why)
		}
		return "", fmt.Errorf("%s is not set; ./build.sh test installs it and sets it", variable)
	}
	_, err := os.Stat(path)
	return path, err
}

// CRIU returns the program that build.sh test found or built, or that an earlier run left in the
// user's cache.
func CRIU() (string, error) {
	path, err := Tool("CRIU")
	if err == nil || os.Getenv("CRIU") != "" {
		return path, err
	}
	for _, cache := range []string{
		os.Getenv("PHOS_CACHE"), Path(".cache"), filepath.Join(os.Getenv("HOME"), ".cache/phos"),
	} {
		if built, _ := filepath.Glob(filepath.Join(cache, "criu-*/sbin/criu")); cache != "" && len(built) > 0 {
			return built[0], nil
		}
	}
	return "", err
}

// repository returns the root of the source tree. Tests that were compiled elsewhere use a
// directory that replaces it.
func repository() string {
	if root := os.Getenv("PHOS_ROOT"); root != "" {
		return root
	}
	_, self, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(self), "../..")
}

// Path returns the path of a file in the repository.
func Path(elements ...string) string {
	return filepath.Join(append([]string{repository()}, elements...)...)
}

// Command prepares a command in the root of the repository.
func Command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Dir = repository()
	return command
}

// Bin returns the directory that build.sh builds into.
func Bin() string {
	if dir := os.Getenv("PHOS_BIN"); dir != "" {
		return dir
	}
	return Path("bin")
}
