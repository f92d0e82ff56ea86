package ckpt

import (
	"bytes"
	"errors"
	"io"
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
