package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// traps put something else in the place of a file of an image. secret is a file of another user.
var traps = map[string]func(path, secret string) error{
	"FIFO":              func(path, _ string) error { return unix.Mkfifo(path, 0o666) },
	"socket":            func(path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o666, 0) },
	"directory":         func(path, _ string) error { return os.Mkdir(path, 0o755) },
	"link to a secret":  func(path, secret string) error { return os.Symlink(secret, path) },
	"link to itself":    func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
	"link to a process": func(path, _ string) error { return os.Symlink("/proc/self/fd/0", path) },
}

// TestTrapsInImages: bob puts other things in the places of the files of an image. Requests about
// the image fail, nothing blocks, and nothing of alice's is read.
func TestTrapsInImages(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	secret := a.file("secret")
	if err := errors.Join(os.WriteFile(secret, []byte("of alice alone"), 0o600), os.Chown(secret, int(a.uid), -1)); err != nil {
		t.Fatal(err)
	}
	program := b.programIn(d, "program", "", onGPU+"allocate(1 << 20)\nready()")
	image := b.file("image")
	b.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	var files []string
	err := filepath.WalkDir(image, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && filepath.Dir(path) != image {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for name, trap := range traps {
		for _, file := range files {
			if err := errors.Join(os.Rename(file, file+"~"), trap(file, secret)); err != nil {
				t.Fatal(name, err)
			}
			for _, arguments := range [][]string{
				{"image", "check", image},
				{"--pre-restore", "--dir", image},
				{"--restore", "--new-pids", "--detach", "--dir", image},
				{"image", "verify", image},
			} {
				text, err := run(t, b.cli(d, arguments...))
				if err == nil || strings.Contains(text, "of alice alone") {
					t.Errorf("%s in the place of %s: pos_cli %v: %v: %q", name, filepath.Base(file), arguments, err, text)
				}
			}
			if err := errors.Join(os.Remove(file), os.Rename(file+"~", file)); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	if text := b.mustCLI(d, "--restore", "--detach", "--dir", image); !strings.Contains(text, "runs again") {
		t.Errorf("afterwards: %q", text)
	}
	killRestored(d)
}
