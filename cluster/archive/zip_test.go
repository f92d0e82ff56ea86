package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// entry is an entry of a zip file.
type entry struct {
	name, content string
	mode          fs.FileMode
}

// zipOf writes a zip file.
func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		header.SetMode(e.mode)
		file, err := w.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(file, e.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// list returns what packed code has, a line for each entry.
func list(t testing.TB, p *Packed) (lines []string) {
	t.Helper()
	plain, err := zstd.NewReader(bytes.NewReader(p.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for entries := tar.NewReader(plain); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%c %o %s %s%s", h.Typeflag, h.Mode, h.Name, content, h.Linkname))
	}
}

func TestFromZip(t *testing.T) {
	content := zipOf(t, entry{"a.py", "print(1)", 0o644}, entry{"bin/", "", fs.ModeDir | 0o755}, entry{"bin/run", "#!", 0o700},
		entry{"deep/er/x", "", 0o600}, entry{"link", "a.py", fs.ModeSymlink | 0o777}, entry{"./", "", fs.ModeDir | 0o755})
	first, err := FromZip(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(list(t, first), "\n")
	const want = "0 644 a.py print(1)\n5 755 bin/ \n0 755 bin/run #!\n0 644 deep/er/x \n2 777 link a.py"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := FromZip(t.Context(), content); err != nil || string(again.Ref().GetHash()) != string(first.Ref().GetHash()) {
		t.Errorf("the same zip file has another hash: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := FromZip(ctx, content); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for a request that has ended", err)
	}
}

// TestRefused: what no launch may bring is refused by name.
func TestRefused(t *testing.T) {
	file := func(name string) entry { return entry{name, "x", 0o644} }
	for says, content := range map[string][]byte{
		`"../x" is no plain path`:       zipOf(t, file("../x")),
		`"a/../../x" is no plain path`:  zipOf(t, file("a/../../x")),
		`"/etc/x" is no plain path`:     zipOf(t, file("/etc/x")),
		`"a//x" is no plain path`:       zipOf(t, file("a//x")),
		`"" is no plain path`:           zipOf(t, file("")),
		`"a\x00b" is no plain path`:     zipOf(t, file("a\x00b")),
		`"x" is there twice`:            zipOf(t, file("x"), file("x")),
		`"a" is there twice`:            zipOf(t, file("a/x"), file("a")),
		`lies below "a"`:                zipOf(t, file("a"), file("a/x")),
		`"pipe" is no file`:             zipOf(t, entry{"pipe", "", fs.ModeNamedPipe | 0o644}),
		`"device" is no file`:           zipOf(t, entry{"device", "", fs.ModeDevice | 0o644}),
		`"link" is a link to nothing`:   zipOf(t, entry{"link", "", fs.ModeSymlink | 0o777}),
		`"link" is a link of 5000`:      zipOf(t, entry{"link", strings.Repeat("x", 5000), fs.ModeSymlink | 0o777}),
		"not a valid zip file":          []byte("PK no zip"),
		"at most 67108864 are taken":    make([]byte, MaxZip+1),
		`"x": zip: checksum error`:      damaged(t),
		"unpacks to more than 2048 MiB": announcing(t, 3<<30),
	} {
		if _, err := FromZip(t.Context(), content); !errors.Is(err, ErrZip) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

// damaged returns a zip file whose content does not have its sum.
func damaged(t *testing.T) []byte {
	t.Helper()
	content := zipOf(t, entry{"x", strings.Repeat("abc", 100), 0o644})
	at := bytes.Index(content, []byte("PK\x01\x02")) + 16 // the sum in the directory
	content[at] ^= 1
	return content
}

// announcing returns a zip file with an entry that says it has so many bytes.
func announcing(t *testing.T, size uint32) []byte {
	t.Helper()
	content := zipOf(t, entry{"x", "y", 0o644})
	at := bytes.Index(content, []byte("PK\x01\x02")) + 24
	for i := range 4 {
		content[at+i] = byte(size >> (8 * i))
	}
	return content
}

// TestBomb: an entry that unpacks to more than it says ends the conversion, and so do many that are
// as large as they say.
func TestBomb(t *testing.T) {
	lying := zipOf(t, entry{"x", strings.Repeat("a", 1<<20), 0o644})
	at := bytes.Index(lying, []byte("PK\x01\x02")) + 24
	copy(lying[at:], []byte{10, 0, 0, 0})
	if _, err := FromZip(t.Context(), lying); !errors.Is(err, ErrZip) {
		t.Errorf("got %v for an entry that is larger than it says", err)
	}
	var many []entry
	for i := range 9 {
		many = append(many, entry{fmt.Sprint(i), strings.Repeat("a", 1<<20), 0o644})
	}
	c := &converter{archive: tar.NewWriter(io.Discard), left: 8 << 20, seen: map[string]bool{}}
	source := zipOf(t, many...)
	reader, err := zip.NewReader(bytes.NewReader(source), int64(len(source)))
	for i := 0; err == nil && i < len(many); i++ {
		err = c.add(reader.File[i])
	}
	if !errors.Is(err, ErrZip) {
		t.Errorf("got %v for more bytes than are left", err)
	}
}

// TestPython: what Python's zipfile writes is read, with its links and permissions.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python")
	}
	path := filepath.Join(t.TempDir(), "x.zip")
	script := `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("ä/é.txt", "text")
    z.write(sys.argv[2], "run")
`
	program := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(python, "-c", script, path, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := FromZip(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(list(t, p), "|"); got != "0 644 ä/é.txt text|0 755 run #!/bin/sh\n" {
		t.Errorf("got %q", got)
	}
}

// TestFiles packs files that are not on a disk.
func TestFiles(t *testing.T) {
	p, err := Files(map[string][]byte{"b": []byte("2"), "a/c": []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(list(t, p), "|"); got != "0 644 a/c 1|0 644 b 2" {
		t.Errorf("got %q", got)
	}
}

// FuzzFromZip: whatever a zip file has, the result is a sound archive of plain paths, or ErrZip.
func FuzzFromZip(f *testing.F) {
	f.Add(zipOf(f, entry{"a/b", "x", 0o644}, entry{"l", "a", fs.ModeSymlink | 0o777}, entry{"d/", "", fs.ModeDir | 0o755}))
	f.Add(zipOf(f, entry{"../x", "y", 0o755}))
	f.Add(zipOf(f, entry{"x", strings.Repeat("abc", 10_000), 0o644}))
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := FromZip(t.Context(), content)
		if err != nil {
			if !errors.Is(err, ErrZip) {
				t.Errorf("got %v", err)
			}
			return
		}
		for _, line := range list(t, p) {
			_, name, _ := strings.Cut(line[2:], " ") // behind kind and mode
			if strings.HasPrefix(name, "/") || strings.HasPrefix(name, "../") {
				t.Errorf("the archive has %q", line)
			}
		}
	})
}
