package preflight

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"
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
