package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

func TestFindLibrary(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []string
		self    string
		want    library
	}{
		{
			"build tree",
			[]string{"bin/pos_cli", "bin/libphos.so", "bin/lib/libcuda.so.1 -> ../libphos.so"},
			"bin/pos_cli",
			library{"bin/libphos.so", "bin/lib"},
		},
		{
			"build tree by a link",
			[]string{"bin/pos_cli", "bin/libphos.so", "bin/lib/x", "home/pos -> ../bin/pos_cli"},
			"home/pos",
			library{"bin/libphos.so", "bin/lib"},
		},
		{
			"installed: the version, not the link to it",
			[]string{"bin/pos_cli", "lib/phos/abc/libphos.so", "lib/phos/current -> abc"},
			"bin/pos_cli",
			library{"lib/phos/abc/libphos.so", "lib/phos/abc"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			makeFiles(t, root, test.entries...)
			got, err := findLibrary(filepath.Join(root, test.self))
			want := library{filepath.Join(root, test.want.file), filepath.Join(root, test.want.driverDir)}
			if err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestNoLibrary(t *testing.T) {
	root := t.TempDir()
	makeFiles(t, root, "bin/pos_cli", "with space/bin/pos_cli", "with space/bin/libphos.so", "with space/bin/lib/x")
	if _, err := findLibrary(filepath.Join(root, "bin/pos_cli")); !errors.Is(err, errNoLibrary) {
		t.Errorf("got %v, want %v", err, errNoLibrary)
	}
	// The shell would split this path.
	if _, err := findLibrary(filepath.Join(root, "with space/bin/pos_cli")); err == nil {
		t.Error("a path with a space was accepted")
	}
}

// TestShellCode runs the code in a shell, with and without earlier values of the variables.
func TestShellCode(t *testing.T) {
	root := t.TempDir()
	makeFiles(t, root, "bin/pos_cli", "bin/libphos.so", "bin/lib/libcuda.so.1 -> ../libphos.so")
	code, err := shellCode(filepath.Join(root, "bin/pos_cli"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		environment []string
		want        []string
	}{
		{nil, []string{"LD_LIBRARY_PATH=" + root + "/bin/lib\n", "NUMBA_CUDA_DRIVER=" + root + "/bin/lib/libcuda.so.1\n", "CUPY_COMPILE_WITH_PTX=1\n", "USE_LIBUV=0\n"}},
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
