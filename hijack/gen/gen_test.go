package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGenerated fails when a generated file is not what the specification makes of it.
func TestGenerated(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		have, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !bytes.Equal(have, f.content) {
			t.Errorf("%s is out of date: run go generate ./hijack/gen", f.path)
		}
	}
}
