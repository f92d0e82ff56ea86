package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeFiles creates empty files and links: "path" or "path -> target".
func makeFiles(t *testing.T, root string, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		name, target, link := strings.Cut(entry, " -> ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && link {
			err = os.Symlink(target, path)
		} else if err == nil {
			err = os.WriteFile(path, nil, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFindLibrary(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []string
		self    string
		want    Library
	}{
		{
			"build tree",
			[]string{"bin/pos_cli", "bin/libphos.so", "bin/lib/libcuda.so.1 -> ../libphos.so"},
			"bin/pos_cli",
			Library{"bin/libphos.so", "bin/lib"},
		},
		{
			"build tree by a link",
			[]string{"bin/pos_cli", "bin/libphos.so", "bin/lib/x", "home/pos -> ../bin/pos_cli"},
			"home/pos",
			Library{"bin/libphos.so", "bin/lib"},
		},
		{
			"installed: the version, not the link to it",
			[]string{"bin/pos_cli", "lib/phos/abc/libphos.so", "lib/phos/current -> abc"},
			"bin/pos_cli",
			Library{"lib/phos/abc/libphos.so", "lib/phos/abc"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			makeFiles(t, root, test.entries...)
			got, err := FindLibrary(filepath.Join(root, test.self))
			want := Library{filepath.Join(root, test.want.File), filepath.Join(root, test.want.DriverDir)}
			if err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestNoLibrary(t *testing.T) {
	root := t.TempDir()
	makeFiles(t, root, "bin/pos_cli", "with space/bin/pos_cli", "with space/bin/libphos.so", "with space/bin/lib/x")
	if _, err := FindLibrary(filepath.Join(root, "bin/pos_cli")); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("got %v, want %v", err, ErrNoLibrary)
	}
	// The shell would split this path.
	if _, err := FindLibrary(filepath.Join(root, "with space/bin/pos_cli")); err == nil {
		t.Error("a path with a space was accepted")
	}
}

// TestShellCode runs the code in a shell, with and without earlier values of the variables.
func TestShellCode(t *testing.T) {
	root := t.TempDir()
	makeFiles(t, root, "bin/pos_cli", "bin/libphos.so", "bin/lib/libcuda.so.1 -> ../libphos.so")
	found, err := FindLibrary(filepath.Join(root, "bin/pos_cli"))
	if err != nil {
		t.Fatal(err)
	}
	code := found.ShellCode()
	for _, test := range []struct {
		environment []string
		want        []string
	}{
		{nil, []string{
			"LD_LIBRARY_PATH=" + root + "/bin/lib\n", "NUMBA_CUDA_DRIVER=" + root + "/bin/lib/libcuda.so.1\n",
			"CUPY_COMPILE_WITH_PTX=1\n", "USE_LIBUV=0\n", "NCCL_IB_DISABLE=1\n", "NCCL_NVLS_ENABLE=0\n",
		}},
		{[]string{"LD_LIBRARY_PATH=/a:/b"}, []string{"LD_LIBRARY_PATH=" + root + "/bin/lib:/a:/b\n"}},
	} {
		// printf instead of env: the library here is empty and cannot be preloaded.
		shell := exec.Command("sh", "-c", code+`printf '%s\n' $phos`)
		shell.Env = test.environment
		output, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(test.want, "LD_PRELOAD="+root+"/bin/libphos.so\n") {
			if !strings.Contains(string(output), want) {
				t.Errorf("got %s, want %s in it", output, want)
			}
		}
	}
}

// TestEnvironmentEqualsShellCode: run and env $phos start programs with the same variables. The
// shell is the other implementation.
func TestEnvironmentEqualsShellCode(t *testing.T) {
	root := t.TempDir()
	makeFiles(t, root, "bin/pos_cli", "bin/libphos.so", "bin/lib/libcuda.so.1 -> ../libphos.so")
	found, err := FindLibrary(filepath.Join(root, "bin/pos_cli"))
	if err != nil {
		t.Fatal(err)
	}
	for _, earlier := range [][]string{
		nil,
		{"LD_LIBRARY_PATH=/a:/b", "USE_LIBUV=1", "HOME=/home/ann"},
		{"LD_PRELOAD=/usr/lib/other.so"},
		{"LD_PRELOAD=", "LD_LIBRARY_PATH="},
	} {
		// The listing needs no process: the library here is empty and cannot be preloaded.
		shell := exec.Command("sh", "-c", found.ShellCode()+`printf '%s\n' $phos`)
		shell.Env = earlier
		output, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := found.Environment(earlier)
		for want := range strings.Lines(string(output)) {
			if !slices.Contains(got, strings.TrimSpace(want)) {
				t.Errorf("environment %q lacks %q of $phos", got, want)
			}
		}
		if again := found.Environment(got); !slices.Equal(
			slices.Sorted(slices.Values(again)),
			slices.Sorted(slices.Values(got)),
		) {
			t.Errorf("under phos already: got %q, want %q", again, got)
		}
	}
}
