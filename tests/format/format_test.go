package format

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

var golden = harness.Path("ckpt", "store", "testdata", "golden", "v1")

// key is the key that sealed the golden images.
var key = [32]byte{1, 2, 3}

// describe lists the content of a generation, in the form of the text files beside the golden
// images.
func (p *picture) describe(t *testing.T, n uint64) (lines []string) {
	t.Helper()
	m := p.generations[n]
	tree := func(part, hash string) {
		if hash == "" {
			return
		}
		entries, err := p.tree(decoded(t, hash))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			lines = append(lines, fmt.Sprintf("%d %s %s", n, part, e.text()))
		}
	}
	for _, process := range m.Processes {
		if process.GPU != nil {
			tree("gpu", process.GPU.Tree)
		}
	}
	tree("cpu", m.CPU.Tree)
	for _, file := range m.Files {
		if file.Hash != "" && file.Bytes > twoMiB {
			tree("file", file.Hash)
			continue
		}
		if file.Hash == "" {
			continue
		}
		e := entry{kind: 1, name: file.Path}
		if hash := decoded(t, file.Hash); hash != strings.Repeat("\x00", 32) {
			content, err := p.content(hash, false)
			if err != nil || uint64(len(content)) != file.Bytes {
				t.Fatalf("%s: %d bytes, %v", file.Path, len(content), err)
			}
			e.chunks = []chunk{{0, content}}
		} else {
			e.chunks = []chunk{{0, make([]byte, file.Bytes)}}
		}
		lines = append(lines, fmt.Sprintf("%d file %s", n, e.text()))
	}
	slices.Sort(lines)
	return lines
}

func decoded(t *testing.T, hash string) string {
	t.Helper()
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != 32 {
		t.Fatalf("%q is not a hash", hash)
	}
	return string(raw)
}

func (e entry) text() string {
	bytes, sum := 0, sha256.New()
	for _, c := range e.chunks {
		if e.kind == 2 {
			_, _ = sum.Write(binary.LittleEndian.AppendUint64(nil, c.address))
		}
		_, _ = sum.Write(c.content)
		bytes += len(c.content)
	}
	return fmt.Sprintf("%s %s %d %x", e.name, map[byte]string{1: "file", 2: "memory"}[e.kind], bytes, sum.Sum(nil))
}

// TestReader reads the committed images by the rules of FORMAT.md, and compares their content with
// the known content.
func TestReader(t *testing.T) {
	for _, name := range []string{"full", "image"} {
		p, err := readDirectory(filepath.Join(golden, name), key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for n := range uint64(len(p.generations)) {
			got = append(got, p.describe(t, n+1)...)
		}
		if name == "image" {
			// Only the hashes of its saved files are known.
			got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, " file /") })
		}
		compareText(t, name, got)
	}
}

// TestStreamReader reads an image from a stream. It is the first generation of an image that exists
// as a directory too.
func TestStreamReader(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(golden, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := readStream(raw, key)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readDirectory(filepath.Join(golden, "image"), key)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.describe(t, 1), d.describe(t, 1); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("got from the stream\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func compareText(t *testing.T, name string, got []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(text)); strings.Join(got, "\n") != want {
		t.Errorf("got from %s\n%s\nwant\n%s", name, strings.Join(got, "\n"), want)
	}
}

// TestDamageIsFound: the reader finds the damage that FORMAT.md says can be found.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(golden, "image"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"phos-image", "generations/000001"} {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range raw {
			raw[at] ^= 4
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if p, err := readDirectory(dir, key); err == nil {
				t.Errorf("%s was changed at %d: read as %v", name, at, p.generations)
			}
			raw[at] ^= 4
			if at > 200 && at < len(raw)-200 && name != "phos-image" {
				break // one checksum covers the text in between
			}
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers returns the rows of the last table in FORMAT.md.
func numbers(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(harness.Path("FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| number | value |")
	if !found {
		t.Fatal("FORMAT.md has no table of numbers")
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \| (\d+) \|$`).FindAllStringSubmatch(table, -1) {
		rows[row[1]] = row[2]
	}
	return rows
}
