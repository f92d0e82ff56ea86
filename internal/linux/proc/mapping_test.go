package proc

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func collect(mappings iter.Seq2[Mapping, error]) (found []Mapping, err error) {
	for m, err := range mappings {
		if err != nil {
			return found, err
		}
		found = append(found, m)
	}
	return found, nil
}

// TestMappingLines parses lines as kernels write them.
func TestMappingLines(t *testing.T) {
	for line, want := range map[string]Mapping{
		"1000-3000 rw-s 00001000 103:1a 77                         /a b": {0x1000, 0x3000, "rw-s", 0x1000, unix.Mkdev(0x103, 0x1a), 77, "/a b"},
		"7f41a8645000-7f41a866d000 rw-s 00014000 00:19 1107 /dev/shm/x (deleted)": {
			0x7f41a8645000, 0x7f41a866d000, "rw-s", 0x14000, unix.Mkdev(0, 0x19), 1107, "/dev/shm/x (deleted)",
		},
		"55d0-55d1 rw-p 00000000 00:00 0                                  [heap]":      {0x55d0, 0x55d1, "rw-p", 0, 0, 0, "[heap]"},
		"7ffc1000-7ffc2000 r-xp 00000000 00:00 0                          [vdso]":      {0x7ffc1000, 0x7ffc2000, "r-xp", 0, 0, 0, "[vdso]"},
		"7f01-7f02 ---p 00000000 00:00 0 ":                                             {0x7f01, 0x7f02, "---p", 0, 0, 0, ""},
		"7f01-7f02 rw-s 00000000 00:01 2048                       /dev/zero (deleted)": {0x7f01, 0x7f02, "rw-s", 0, unix.Mkdev(0, 1), 2048, "/dev/zero (deleted)"},
		`1-2 r--p 0 08:01 5 /two\012lines and   blanks`:                                {1, 2, "r--p", 0, unix.Mkdev(8, 1), 5, "/two\nlines and   blanks"},
		// A high offset in a file of more than 2^63 bytes, with the largest possible numbers.
		"ffffffffff600000-ffffffffff601000 --xp fffffffffffff000 ffffffff:ffffffff 18446744073709551615 /huge": {
			0xffffffffff600000, 0xffffffffff601000, "--xp", 0xfffffffffffff000,
			unix.Mkdev(0xffffffff, 0xffffffff), 1<<64 - 1, "/huge",
		},
	} {
		if got, err := parseMapping(line); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "1000-3000 rw-s 00001000 103:1a", "1000 rw-s 0 0:0 0 ", "1000-3000 rw- 0 0:0 0 /a",
		"1000-3000 rw-s 0 0 0 /a", "x-3000 rw-s 0 0:0 0 ",
		"1000-3000 rw-s 0 100000000:0 0 ", "1000-3000 rw-s 0 0:0 a /a",
		"10000000000000000-20000000000000000 rw-s 0 0:0 0 ",
	} {
		if got, err := parseMapping(bad); err == nil {
			t.Errorf("%q became %+v", bad, got)
		}
	}
}

// TestMappingAccess checks the four letters of the access mode.
func TestMappingAccess(t *testing.T) {
	for access, want := range map[string][4]bool{
		"rwxs": {true, true, true, true}, "---p": {}, "r--p": {true}, "-w-s": {false, true, false, true},
		"--xp": {false, false, true},
	} {
		m := Mapping{Access: access}
		if got := [4]bool{m.Readable(), m.Writable(), m.Executable(), m.Shared()}; got != want {
			t.Errorf("%s: %v, want %v", access, got, want)
		}
	}
}

// TestMappingsOfProcess compares with this process's mappings: files with strange names, existing
// or removed, and anonymous memory.
func TestMappingsOfProcess(t *testing.T) {
	const pages = 3
	bytes := pages * os.Getpagesize()
	for _, name := range []string{"plain", "a  name of\ntwo lines", "removed", `back\slash`} {
		path := filepath.Join(t.TempDir(), name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		const offset = 1 << 40 // a sparse file
		if err := file.Truncate(offset + int64(bytes)); err != nil {
			t.Fatal(err)
		}
		memory, err := unix.Mmap(int(file.Fd()), offset, bytes, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		want := path
		if name == "removed" {
			want += " (deleted)"
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		all, err := Mappings(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(m Mapping) bool { return m.Path == want })
		if at < 0 {
			t.Fatalf("%q not found", want)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
			t.Fatal(err)
		}
		if m := all[at]; m.Offset != offset || m.End-m.Start != uint64(bytes) || m.Inode != stat.Ino || !m.Shared() ||
			!m.Readable() ||
			m.Writable() {
			t.Errorf("%q: %+v", name, m)
		}
		if !slices.IsSortedFunc(all, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) }) {
			t.Error("mappings are not sorted by address")
		}
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
		if all, err = Mappings(os.Getpid()); err != nil ||
			slices.ContainsFunc(all, func(m Mapping) bool { return m.Path == want }) {
			t.Errorf("%q is still found, %v", want, err)
		}
		if !slices.ContainsFunc(all, func(m Mapping) bool { return m.Path == "[stack]" && m.Inode == 0 }) {
			t.Error("no stack")
		}
	}
}

// TestMappingFile: the link leads to the mapped file, even if its path names another one.
func TestMappingFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: follows map_files")
	}
	path := filepath.Join(t.TempDir(), "file")
	page := make([]byte, os.Getpagesize())
	copy(page, "mapped")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, len(page), unix.PROT_READ, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close(), os.Remove(path), os.WriteFile(path, []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	for m, err := range EachMapping(os.Getpid()) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Path != path+" (deleted)" {
			continue
		}
		text, err := os.ReadFile(m.File(os.Getpid()))
		if err != nil || !strings.HasPrefix(string(text), "mapped") {
			t.Errorf("content %.10q, %v", text, err)
		}
		return
	}
	t.Error("mapping not found")
}

// TestMappingsInPart: the iteration can stop early; an error comes last; an ended process has no
// mappings.
func TestMappingsInPart(t *testing.T) {
	const two, wrong = "1000-2000 rw-p 0 00:00 0 \n2000-3000 rw-p 0 00:00 0 [heap]\n", "nonsense\n3000-4000 rw-p 0 00:00 0 \n"
	if found, err := collect(parseMappings(strings.NewReader(two + wrong))); len(found) != 2 || err == nil {
		t.Errorf("%v, %v", found, err)
	}
	for m, err := range parseMappings(strings.NewReader(two + wrong)) {
		if err != nil || m.Start != 0x1000 {
			t.Errorf("%+v, %v", m, err)
		}
		break
	}
	long := "1000-2000 rw-p 0 00:00 7 /" + strings.Repeat(`\012`, 4095) + "\n"
	if found, err := collect(parseMappings(strings.NewReader(long))); err != nil || len(found) != 1 ||
		len(found[0].Path) != 4096 {
		t.Errorf("a long name: %d, %v", len(found), err)
	}
	if _, err := collect(parseMappings(strings.NewReader(strings.Repeat("x", maxLineBytes+1)))); err == nil {
		t.Error("accepted an unterminated line")
	}
	const noPID = 1 << 30
	if _, err := Mappings(noPID); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("mappings of an ended process: %v", err)
	}
}

// TestManyMappings: a process may have tens of thousands.
func TestManyMappings(t *testing.T) {
	var text strings.Builder
	const lines = 65530
	for i := range lines {
		fmt.Fprintf(&text, "%x-%x rw-p 00000000 00:00 0 \n", 0x1000*i, 0x1000*(i+1))
	}
	if found, err := collect(parseMappings(strings.NewReader(text.String()))); err != nil || len(found) != lines ||
		found[lines-1].End != 0x1000*lines {
		t.Errorf("%d mappings, %v", len(found), err)
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add("7f41a8645000-7f41a866d000 rw-s 00014000 00:19 1107 /dev/shm/x (deleted)")
	f.Add("7ffc1000-7ffc2000 r-xp 00000000 00:00 0                          [vdso]")
	f.Add("1-2 rwxs 0 ffffffff:0 18446744073709551615 ")
	f.Fuzz(func(t *testing.T, line string) {
		if m, err := parseMapping(line); err == nil && (strings.Count(line, " ") < 4 || len(m.Access) != 4) {
			t.Errorf("%q became %+v", line, m)
		}
	})
}
