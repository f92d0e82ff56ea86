package scenarios

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// secretDir is a directory of root. A user must neither read nor change anything in it.
type secretDir struct {
	t      testing.TB
	dir    string
	before string
}

const secret = "only root may know: 5f2d8c61"

func newSecretDir(t testing.TB) *secretDir {
	t.Helper()
	v := &secretDir{t: t, dir: filepath.Join(open(t), "treasure")}
	for _, dir := range []string{"", "packs", "generations", "tmp"} {
		if err := os.Mkdir(filepath.Join(v.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"closed": 0o600, "open": 0o644, "packs/closed": 0o600} {
		if err := os.WriteFile(filepath.Join(v.dir, name), []byte(secret), mode); err != nil {
			t.Fatal(err)
		}
	}
	v.before = v.state()
	return v
}

// state describes everything in the directory that a user could have changed.
func (v *secretDir) state() string {
	v.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(v.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(&all, path, info.Mode(), stat.Uid, stat.Gid, stat.Nlink, stat.Ino)
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			fmt.Fprintf(&all, "%q\n", text)
			return err
		}
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return all.String()
}

func (v *secretDir) checkUnchanged(when string) {
	v.t.Helper()
	if now := v.state(); now != v.before {
		v.t.Errorf("%s, root's directory is\n%s\nwant\n%s", when, now, v.before)
	}
}

// checkNotLeaked checks that a directory of the user does not contain the secret.
func (v *secretDir) checkNotLeaked(dir string) {
	v.t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			v.t.Errorf("%s contains the secret", path)
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

// swap replaces a path with a symbolic link of the user.
func swap(t *testing.T, path, target string) {
	t.Helper()
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
}

// parts returns the places in an image for a link: the directory, its entries, and one entry of
// each of these.
func parts(t *testing.T, images string) []string {
	t.Helper()
	found := []string{"."}
	entries, err := os.ReadDir(images)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
		if below, err := os.ReadDir(filepath.Join(images, entry.Name())); err == nil && len(below) > 0 {
			found = append(found, filepath.Join(entry.Name(), below[0].Name()))
		}
	}
	return found
}

// TestSwappedParts: a part of a user's image was replaced with a link to a file of root.
func TestSwappedParts(t *testing.T) {
	d, dir, v := start(t), home(t, ordinary), newSecretDir(t)
	a := stepperCommand(t, as(errorsToFile(t, homeProgram(d, dir, "asked.py", "none"), ordinary), ordinary))
	images := filepath.Join(dir, "image")
	mustCheckpoint(t, d, a, ordinary, "--pre-dump", images)
	for _, part := range parts(t, images) {
		for _, target := range []string{"", "closed"} {
			for _, line := range [][]string{
				{"--pre-dump", "--pid", strconv.Itoa(a.pid)}, {"--restore", "--new-pids"}, {"--clean"},
			} {
				copied := filepath.Join(dir, "copy")
				if text, err := exec.Command("cp", "-a", images, copied).CombinedOutput(); err != nil {
					t.Fatal(err, string(text))
				}
				swap(t, filepath.Join(copied, part), filepath.Join(v.dir, target))
				// A restored program reads the end of its input and exits.
				text, err := run(t, as(d.Command(append([]string{line[0], "--dir", copied}, line[1:]...)...), ordinary))
				if err == nil && strings.Contains(text, secret) {
					t.Errorf("%s printed the secret: %s", line[0], text)
				}
				v.checkUnchanged(fmt.Sprintf("after %s with %s for %s", line[0], target, part))
				v.checkNotLeaked(dir)
				for _, left := range []string{copied, filepath.Join(dir, "copy.kept")} {
					if err := os.RemoveAll(left); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	a.finish(0)
	d.Empty()
}

// TestSwappedDuringWork: the path of the image alternates between the image and a link to a
// directory of root, while phosd works.
func TestSwappedDuringWork(t *testing.T) {
	d, dir, v := start(t), home(t, ordinary), newSecretDir(t)
	a := stepperCommand(t, as(errorsToFile(t, homeProgram(d, dir, "asked.py", "none"), ordinary), ordinary))
	images, kept, link := filepath.Join(dir, "image"), filepath.Join(dir, "kept"), filepath.Join(dir, "link")
	if err := os.Symlink(v.dir, link); err != nil {
		t.Fatal(err)
	}
	mustCheckpoint(t, d, a, ordinary, "--pre-dump", images)
	if err := os.Rename(images, kept); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, images); err != nil {
		t.Fatal(err)
	}
	done, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			fresh := filepath.Join(dir, "fresh")
			// Exchange both atomically.
			_ = os.Symlink([]string{kept, v.dir}[i%2], fresh)
			_ = os.Rename(fresh, images)
		}
	}()
	good := 0
	for range 12 {
		for _, line := range [][]string{{"--pre-dump", "--pid", strconv.Itoa(a.pid)}, {"--restore", "--new-pids"}} {
			text, err := run(t, as(d.Command(append([]string{line[0], "--dir", images}, line[1:]...)...), ordinary))
			if strings.Contains(text, secret) {
				t.Errorf("%s printed the secret: %s", line[0], text)
			}
			if err == nil {
				good++
			}
		}
	}
	close(done)
	<-swapped
	v.checkUnchanged("after all")
	v.checkNotLeaked(dir)
	t.Logf("%d of 12 pre-dumps found the image", good)
	a.finish(0)
	d.Empty()
}

// TestSwappedFiles: a file that a user's program was writing was replaced with a link to a file of
// root.
func TestSwappedFiles(t *testing.T) {
	for _, name := range []string{"results", "log", "other", "data"} {
		t.Run(name, func(t *testing.T) {
			d, dir, v := start(t), home(t, ordinary), newSecretDir(t)
			writeData(t, dir, ordinary)
			a := stepperCommand(t, as(errorsToFile(t, homeProgram(d, dir, "asked.py", "none", "files"), ordinary), ordinary))
			images := filepath.Join(dir, "image")
			a.step(5, 5)
			mustCheckpoint(t, d, a, ordinary, "--pre-dump", images)
			for _, target := range []string{"closed", "open"} {
				swap(t, filepath.Join(dir, name), filepath.Join(v.dir, target))
				// The checkpoint saves the file that the program has open, or fails.
				text, err := run(
					t,
					as(d.Command("--pre-dump", "--dir", images, "--pid", strconv.Itoa(a.pid)), ordinary),
				)
				t.Logf("pre-dump: %v: %s", err, text)
				v.checkUnchanged("after a pre-dump")
				v.checkNotLeaked(dir)
				if err := os.Rename(filepath.Join(dir, name+".kept"), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			a.kill()
			for _, target := range []string{"closed", "open"} {
				swap(t, filepath.Join(dir, name), filepath.Join(v.dir, target))
				text, err := run(t, as(d.Command("--restore", "--generation", "1", "--dir", images), ordinary))
				if err == nil {
					t.Errorf("restore replaced a link: %s", text)
				}
				v.checkUnchanged("after a restore")
				v.checkNotLeaked(dir)
				if err := os.Rename(filepath.Join(dir, name+".kept"), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			back := restoreBy(t, d, as(d.Command("--restore", "--generation", "1", "--dir", images), ordinary))
			back.step(5, 10)
			back.finish(0)
			checkData(t, dir, 10)
			d.Empty()
		})
	}
}
