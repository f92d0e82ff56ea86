package ckpt

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"testing"
)

// TestReadLibrary checks that other files than a libphos.so are refused. The end-to-end tests
// restore real ones.
func TestReadLibrary(t *testing.T) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]io.Reader{
		"endless":         zeros{},
		"empty":           bytes.NewReader(nil),
		"a text":          bytes.NewReader([]byte("PHOS_SOCKET libcuda.so.1")),
		"another program": bytes.NewReader(program[:min(len(program), MaxLibraryBytes)]),
	} {
		if _, err := ReadLibrary(content); !errors.Is(err, ErrNotLibrary) {
			t.Errorf("%s: got %v, want ErrNotLibrary", name, err)
		}
	}
}

// zeros is an endless file.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(to []byte) (int, error) { clear(to); return len(to), nil }

// TestMergeWritten: a file that several trees have open is only appended to if all of them append,
// is mapped if any maps it, and has the strongest lock.
func TestMergeWritten(t *testing.T) {
	trees := []*Tree{
		{Written: []WrittenFile{
			{Path: "/log", Bytes: 5, Append: true}, {Path: "/db", Lock: "read"}, {Path: "/one", Append: true},
		}},
		{Written: []WrittenFile{{Path: "/log", Bytes: 7, Mapped: true}, {Path: "/db", Lock: "write"}}},
		{Written: []WrittenFile{{Path: "/log", Append: true}, {Path: "/db"}}},
	}
	want := map[string]WrittenFile{
		"/log": {Path: "/log", Bytes: 7, Mapped: true}, "/db": {Path: "/db", Lock: "write"},
		"/one": {Path: "/one", Append: true},
	}
	if got := mergeWritten(trees); !maps.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
