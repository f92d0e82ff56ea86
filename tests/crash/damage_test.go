package crash

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// corruption is an offset in a file of an image at which the test corrupts it.
type corruption struct {
	file string
	at   int64
}

// corruptions returns the first, the middle, the last and some more offsets of every file.
func (r *fixture) corruptions() (all []corruption) {
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
			all = append(all, corruption{name, i * (info.Size() - 1) / parts})
		}
		all = append(all, corruption{name, info.Size() - 1}, corruption{name, min(9, info.Size()-1)})
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestFlippedBits flips one bit in every file of an image, at several offsets.
func TestFlippedBits(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	r.cleanWith(0, 0)
	for _, where := range r.corruptions() {
		t.Run(fmt.Sprintf("%s/%d", where.file, where.at), func(t *testing.T) { r.forSubtest(t).flipBit(where) })
	}
	r.job.Restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// flipBit flips a bit of the image, and checks that verify and restore notice it.
func (r *fixture) flipBit(where corruption) {
	path := filepath.Join(r.job.Image, where.file)
	flip(r.t, path, where.at)
	defer flip(r.t, path, where.at)
	if found := r.problems(); !strings.Contains(found, where.file) {
		r.t.Errorf("verify printed %q", found)
	}
	r.refusedOrUnneeded(where.file)
}

// refusedOrUnneeded checks that a restore fails, or that it restores the program unchanged. In the
// second case the restore does not need the corrupted bytes. No right of the caller would help, so
// the error must not ask for one.
func (r *fixture) refusedOrUnneeded(file string) {
	r.t.Helper()
	text, err := r.tryRestore("--eager")
	if err == nil {
		r.t.Logf("the restore does not read the corrupted bytes")
		*r.restorers = 1
		r.stillRuns()
		r.job.Kill()
	} else if !strings.Contains(text, file) || namesNoImage(text) || strings.Contains(text, "not permitted") {
		r.t.Errorf("restore printed %q", text)
	}
	r.cleanWith(0, 0)
}

// namesNoImage reports whether an error does not name any part of the image.
func namesNoImage(text string) bool {
	return !strings.Contains(text, "/image") && !strings.Contains(text, "content is missing")
}

// flip inverts one bit of a file.
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

// TestSpoiltFiles truncates or removes files of an image.
func TestSpoiltFiles(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	r.cleanWith(0, 0)
	intact := r.snapshot()
	for name, content := range intact.files {
		if content == "" {
			continue
		}
		for _, keep := range []int{-1, 0, len(content) / 2, len(content) - 1} {
			t.Run(fmt.Sprintf("%s/%d", name, keep), func(t *testing.T) {
				r := r.forSubtest(t)
				path := r.job.Image + name
				if keep < 0 {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else if err := os.Truncate(path, int64(keep)); err != nil {
					t.Fatal(err)
				}
				if found := r.problems(); found == "" && keep >= 0 {
					t.Errorf("verify found no problem")
				}
				// The error must name the missing file where possible. A pack is readable without
				// its last bytes.
				r.refusedOrUnneeded(map[bool]string{true: path, false: ""}[keep >= 0 && !strings.HasPrefix(name, "/packs/")])
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	r.job.Restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// toldOnce checks a text about damage in a pack: it names the pack and the content once, and says
// what to do, but nothing of the code that calls return.
func (r *fixture) toldOnce(text, pack string) {
	r.t.Helper()
	for _, want := range []string{
		"the image " + r.job.Image + " is damaged", filepath.Base(pack), "--generation N",
		"pos_cli image verify",
	} {
		if strings.Count(text, want) != 1 {
			r.t.Errorf("%q, want %q in it, once", text, want)
		}
	}
	hashes := regexp.MustCompile(`[0-9a-f]{64}`).FindAllString(text, -1)
	if len(hashes) != 1 || strings.Contains(text, "CUDA_ERROR") {
		r.t.Errorf("%q, want one content and no code of the driver", text)
	}
}

// TestDamageIsTold: device memory is damaged in an image, and loaded after the program runs. The
// restore must not end as if all were well.
func TestDamageIsTold(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	largest, bytes := "", int64(0)
	packs, err := filepath.Glob(filepath.Join(r.job.Image, "packs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		if info, err := os.Stat(pack); err == nil && info.Size() > bytes {
			largest, bytes = pack, info.Size()
		}
	}
	flip(t, largest, bytes/2)
	if text, err := r.tryRestore("--eager"); err == nil {
		t.Error("all memory was loaded")
	} else {
		r.toldOnce(text, largest)
	}
	r.cleanWith(0, 0)
	r.waitPIDFree()
	text, err := r.tryRestore()
	if err == nil {
		t.Error("the restore ended as if all were well")
	}
	r.toldOnce(text, largest)
	// The program is told too, by the call that fails.
	r.eventually(func() string {
		if r.job.Alive() {
			return "the program has not noticed"
		}
		return ""
	})
	said := r.job.Stderr()
	want := "phos: the image " + r.job.Image + " is damaged: "
	if strings.Count(said, want) != 1 || strings.Count(said, "phos: ") != 1 {
		t.Errorf("the program's standard error: got %q, want one line with %q", said, want)
	}
	r.toldOnce(said, largest)
	r.cleanWith(0, 0)
	r.waitPIDFree()
	flip(t, largest, bytes/2)
	r.job.Restore()
	r.finishAndCompare()
}
