package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hoards fills private memory with numbered pages, waits, and reads it all.
const hoards = `
import os, time
def page(i): return b'phos page %07d ' % i * 227 + bytes(10)
pages = bytearray(b''.join(page(i) for i in range(16384)))
print('ready', flush=True)
while not os.path.exists(os.environ['HOLD']): time.sleep(0.01)
print('right' if all(pages[i << 12:i + 1 << 12] == page(i) for i in range(16384)) else 'wrong', flush=True)
`

// TestLostMemory: a program whose private memory is damaged in the image is killed before it sees
// any of it, and its user is told which page of which image it was.
func TestLostMemory(t *testing.T) {
	daemon := start(t)
	job := daemon.Job(t, "/usr/bin/python3", "-c", hoards)
	job.Hold = true
	job.Start()
	job.WaitLines(1)
	job.Dump()
	damagePages(t, job.Image)
	job.Release()
	text, err := job.TryCli("--restore", "--dir", job.Image)
	if err == nil || !strings.Contains(text, "the restored program was killed: image "+job.Image) ||
		!strings.Contains(text, "the page at 0x") {
		t.Errorf("%v: %s", err, text)
	}
	if lines := job.Lines(); lines > 1 {
		t.Errorf("the program has printed %d lines", lines)
	}
}

// damagePages changes a byte in each chunk of an image that has pages of hoards.
func damagePages(t *testing.T, image string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(image, "packs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range packs {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 16 << 20; at < len(content)-16<<20; at += 1 << 20 { // between what is restored at once
			if i := bytes.Index(content[at:min(at+1<<20, len(content))], []byte("phos page 00")); i >= 0 {
				content[at+i]++
				found++
			}
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found < 30 {
		t.Fatalf("only %d pieces of the image have such pages", found)
	}
}
