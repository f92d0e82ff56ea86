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

// treasure is a directory of root's that a user must not get anything of, and not change anything
// in.
type treasure struct {
	t      testing.TB
	dir    string
	before string
}

const secret = "nobody but root may know: 5f2d8c61"

func newTreasure(t testing.TB) *treasure {
	t.Helper()
	v := &treasure{t: t, dir: filepath.Join(open(t), "treasure")}
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

// state is everything about the directory that a user could have changed.
func (v *treasure) state() string {
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

func (v *treasure) untouched(when string) {
	v.t.Helper()
	if now := v.state(); now != v.before {
		v.t.Errorf("%s, root's directory has become\n%swas\n%s", when, now, v.before)
	}
}

// unknown wants that nothing of the secret lies below a directory of the user's.
func (v *treasure) unknown(dir string) {
	v.t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			v.t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

// swap puts a link of the user's where something was.
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

// parts are the places in an image at which a link may stand: itself, what is in it, and one of
// what is in that.
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

// TestSwappedParts: an image of a user's, a part of which has become a link to something of root's.
func TestSwappedParts(t *testing.T) {
	d, dir, v := start(t), home(t, ordinary), newTreasure(t)
	a := ask(t, as(quiet(t, in(d, dir, "asked.py", "none"), ordinary), ordinary))
	images := filepath.Join(dir, "image")
	saves(t, d, a, ordinary, "--pre-dump", images)
	for _, part := range parts(t, images) {
		for _, target := range []string{"", "closed"} {
			for _, line := range [][]string{{"--pre-dump", "--pid", strconv.Itoa(a.pid)}, {"--restore", "--new-pids"}, {"--clean"}} {
				copied := filepath.Join(dir, "copy")
				if text, err := exec.Command("cp", "-a", images, copied).CombinedOutput(); err != nil {
					t.Fatal(err, string(text))
				}
				swap(t, filepath.Join(copied, part), filepath.Join(v.dir, target))
				// A restored program finds its input at an end, and ends.
				text, err := run(t, as(d.Command(append([]string{line[0], "--dir", copied}, line[1:]...)...), ordinary))
				if err == nil && strings.Contains(text, secret) {
					t.Errorf("%s tells the secret: %s", line[0], text)
				}
				v.untouched(fmt.Sprintf("after %s with %s for %s", line[0], target, part))
				v.unknown(dir)
				for _, left := range []string{copied, filepath.Join(dir, "copy.kept")} {
					if err := os.RemoveAll(left); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	a.ends(0)
	d.Empty()
}

// TestSwappedMeanwhile: the path of the image becomes a link to a directory of root's and back, all
// the time, while phosd works.
func TestSwappedMeanwhile(t *testing.T) {
	d, dir, v := start(t), home(t, ordinary), newTreasure(t)
	a := ask(t, as(quiet(t, in(d, dir, "asked.py", "none"), ordinary), ordinary))
	images, kept, link := filepath.Join(dir, "image"), filepath.Join(dir, "kept"), filepath.Join(dir, "link")
	if err := os.Symlink(v.dir, link); err != nil {
		t.Fatal(err)
	}
	saves(t, d, a, ordinary, "--pre-dump", images)
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
			// Each time one of both, at once.
			_ = os.Symlink([]string{kept, v.dir}[i%2], fresh)
			_ = os.Rename(fresh, images)
		}
	}()
	good := 0
	for range 12 {
		for _, line := range [][]string{{"--pre-dump", "--pid", strconv.Itoa(a.pid)}, {"--restore", "--new-pids"}} {
			text, err := run(t, as(d.Command(append([]string{line[0], "--dir", images}, line[1:]...)...), ordinary))
			if strings.Contains(text, secret) {
				t.Errorf("%s tells the secret: %s", line[0], text)
			}
			if err == nil {
				good++
			}
		}
	}
	close(done)
	<-swapped
	v.untouched("after all")
	v.unknown(dir)
	t.Logf("%d of 12 pre-dumps found the image", good)
	a.ends(0)
	d.Empty()
}

// TestSwappedFiles: a file that a user's program was writing has become a link to one of root's.
func TestSwappedFiles(t *testing.T) {
	for _, name := range []string{"results", "log", "other", "data"} {
		t.Run(name, func(t *testing.T) {
			d, dir, v := start(t), home(t, ordinary), newTreasure(t)
			writeData(t, dir, ordinary)
			a := ask(t, as(quiet(t, in(d, dir, "asked.py", "none", "files"), ordinary), ordinary))
			images := filepath.Join(dir, "image")
			a.does(5, 5)
			saves(t, d, a, ordinary, "--pre-dump", images)
			for _, target := range []string{"closed", "open"} {
				swap(t, filepath.Join(dir, name), filepath.Join(v.dir, target))
				// What is saved now is what the program has open, or nothing.
				text, err := run(
					t,
					as(d.Command("--pre-dump", "--dir", images, "--pid", strconv.Itoa(a.pid)), ordinary),
				)
				t.Logf("pre-dump: %v: %s", err, text)
				v.untouched("after a pre-dump")
				v.unknown(dir)
				if err := os.Rename(filepath.Join(dir, name+".kept"), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			a.kill()
			for _, target := range []string{"closed", "open"} {
				swap(t, filepath.Join(dir, name), filepath.Join(v.dir, target))
				text, err := run(t, as(d.Command("--restore", "--generation", "1", "--dir", images), ordinary))
				if err == nil {
					t.Errorf("restored over a link: %s", text)
				}
				v.untouched("after a restore")
				v.unknown(dir)
				if err := os.Rename(filepath.Join(dir, name+".kept"), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			back := restoreBy(t, d, as(d.Command("--restore", "--generation", "1", "--dir", images), ordinary))
			back.does(5, 10)
			back.ends(0)
			checkData(t, dir, 10)
			d.Empty()
		})
	}
}
