package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/ptx"
)

func TestParse(t *testing.T) {
	files, _ := filepath.Glob("/tmp/n/ptx/*.ptx")
	var outline, complete time.Duration
	bytes := 0
	failed := 0
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		bytes += len(raw)
		b := time.Now()
		m, err := ptx.Outline(string(raw))
		outline += time.Since(b)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		b = time.Now()
		for _, fn := range m.Funcs {
			if err := m.Complete(fn); err != nil {
				if failed < 20 {
					t.Errorf("%s %s: %.300v", f, fn.Name, err)
				}
				failed++
			}
			fn.Insts = nil
		}
		complete += time.Since(b)
	}
	t.Log(len(files), bytes>>20, "MiB; outline", outline, "complete", complete, "failed", failed)
}
