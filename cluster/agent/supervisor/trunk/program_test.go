package trunk

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProgram: names of the program are one file, which stays when another process replaces it.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	stat := func(path string) os.FileInfo {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first, next := &Program{Path: at("program")}, &Program{Path: at("program")}
	for _, name := range []string{"a", "b", "a"} {
		if err := first.Link(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	before := stat(at("a"))
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, stat(at("b"))) || before.Size() != stat(itself).Size() || before.Mode().Perm() != 0o755 {
		t.Errorf("a is %v", before)
	}
	for _, name := range []string{"a", "c"} {
		if err := next.Link(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(before, stat(at("a"))) || os.SameFile(before, stat(at("c"))) {
		t.Error("the next process has changed a, or c is a name of the old file")
	}
}

// TestStreams: no two streams have the same descriptor, and what is kept is all of them.
func TestStreams(t *testing.T) {
	const processes = 64
	kept := map[int]bool{}
	for _, number := range Kept(processes) {
		kept[number] = true
	}
	seen := map[int]bool{0: true, ReportFD: true, OrderFD: true}
	for i := range processes {
		out, complaints := Streams(i)
		for _, number := range []int{out, complaints} {
			if seen[number] || number > 2 && !kept[number] {
				t.Errorf("descriptor %d of process %d: seen %v, kept %v", number, i, seen[number], kept[number])
			}
			seen[number] = true
		}
	}
}
