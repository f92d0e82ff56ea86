package preflight

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// TestBuildID compares with what the standard library reads. (Go's own linker puts the note where
// no segment of notes is.)
func TestBuildID(t *testing.T) {
	compared := 0
	for _, path := range []string{"/bin/sh", "/bin/cat", "/usr/bin/env"} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		defer file.Close()
		parsed, err := elf.NewFile(file)
		if err != nil || parsed.Class != elf.ELFCLASS64 || parsed.Data != elf.ELFDATA2LSB {
			continue
		}
		var want []byte
		if section := parsed.Section(".note.gnu.build-id"); section != nil {
			note, err := section.Data()
			if err != nil || len(note) < 16 {
				t.Fatalf("%s: %x, %v", path, note, err)
			}
			want = note[16:]
			compared++
		}
		if got := buildID(file); !bytes.Equal(got, want) {
			t.Errorf("%s: %x instead of %x", path, got, want)
		}
	}
	if compared == 0 {
		t.Skip("no program here has a build id")
	}
}

func FuzzBuildID(f *testing.F) {
	text, err := os.ReadFile("/bin/cat")
	if err == nil {
		f.Add(text[:min(len(text), 4096)])
	}
	f.Add([]byte(elfWide))
	f.Add([]byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id := buildID(bytes.NewReader(text)); len(id) > len(text) {
			t.Errorf("%x", id)
		}
		if id := buildIDIn(text); len(id) > len(text) {
			t.Errorf("%x", id)
		}
	})
}

// TestLinksStayBelowTheRoot: an absolute link of a container does not lead to the host's files.
func TestLinksStayBelowTheRoot(t *testing.T) {
	top, host := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(host, "program"), []byte("the host's"), 0o600),
		os.Symlink(host, filepath.Join(top, "link")),
	); err != nil {
		t.Fatal(err)
	}
	root, err := rootdir.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := buildIDAt(fsuid.Rights{}, root, "/link/program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("build ID of the host's file: %v", err)
	}
	saved := image.SavedFile{Path: "/link/program", Bytes: 1}
	if found := fileObstacle(fsuid.Rights{}, root, saved); len(found) != 1 {
		t.Errorf("obstacles %v, want that there is no file", found)
	}
}
