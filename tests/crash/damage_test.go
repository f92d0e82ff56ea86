package crash

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place is a file of an image, and where in it something is spoilt.
type place struct {
	file string
	at   int64
}

// places are the beginning, the end, the middle and some bytes between, of every file.
func (r *room) places() (all []place) {
	r.t.Helper()
	parts := int64(4)
	if full() {
		parts = 40
	}
	err := filepath.WalkDir(r.job.Image, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		name := strings.TrimPrefix(path, r.job.Image+"/")
		for i := range parts {
			all = append(all, place{name, i * (info.Size() - 1) / parts})
		}
		all = append(all, place{name, info.Size() - 1}, place{name, min(9, info.Size()-1)})
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestFlippedBits flips a bit in every file of an image, at several places.
func TestFlippedBits(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	r.tidy(0, 0)
	for _, where := range r.places() {
		t.Run(fmt.Sprintf("%s/%d", where.file, where.at), func(t *testing.T) { r.in(t).flipped(where) })
	}
	r.job.Restore()
	r.ends()
	r.tidy(0, 0)
}

func (r *room) flipped(where place) {
	path := filepath.Join(r.job.Image, where.file)
	flip(r.t, path, where.at)
	defer flip(r.t, path, where.at)
	if found := r.problems(); !strings.Contains(found, where.file) {
		r.t.Errorf("verify says %q", found)
	}
	r.refused(where.file)
}

// refused insists that a restore fails, or brings the program back as it was: what was spoilt is
// not needed for it then.
func (r *room) refused(file string) {
	r.t.Helper()
	text, err := r.bring("--eager")
	if err == nil {
		r.t.Logf("the restore does not need it")
		*r.keepers = 1
		r.runsOn()
		r.job.Kill()
	} else if !strings.Contains(text, file) || keepsQuiet(text) {
		r.t.Errorf("the restore says %q", text)
	}
	r.tidy(0, 0)
}

// keepsQuiet says that an answer names nothing of an image.
func keepsQuiet(text string) bool {
	return !strings.Contains(text, "/image") && !strings.Contains(text, "content is missing")
}

func flip(t testing.TB, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var one [1]byte
	if _, err := file.ReadAt(one[:], at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 0x10
	if _, err := file.WriteAt(one[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestSpoiltFiles cuts files of an image off, or takes them away.
func TestSpoiltFiles(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	r.tidy(0, 0)
	intact := r.snapshot()
	for name, content := range intact.files {
		if content == "" {
			continue
		}
		for _, keep := range []int{-1, 0, len(content) / 2, len(content) - 1} {
			t.Run(fmt.Sprintf("%s/%d", name, keep), func(t *testing.T) {
				r := r.in(t)
				path := r.job.Image + name
				if keep < 0 {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else if err := os.Truncate(path, int64(keep)); err != nil {
					t.Fatal(err)
				}
				if found := r.problems(); found == "" && keep >= 0 {
					t.Errorf("verify finds nothing")
				}
				// What is missing is named where it can be known. Without its very end a pack is still read.
				r.refused(map[bool]string{true: path, false: ""}[keep >= 0 && !strings.HasPrefix(name, "/packs/")])
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	r.job.Restore()
	r.ends()
	r.tidy(0, 0)
}
