package filelist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/phos-gpu/phos/criu/imagefile"
)

// regular returns a record of a regular file as CRIU writes it.
func regular(name string, size uint64) []byte {
	var file []byte
	file = protowire.AppendVarint(protowire.AppendTag(file, 1, protowire.VarintType), 9)
	file = protowire.AppendString(protowire.AppendTag(file, regularName, protowire.BytesType), name)
	if size > 0 {
		file = protowire.AppendVarint(protowire.AppendTag(file, regularSize, protowire.VarintType), size)
	}
	file = protowire.AppendVarint(protowire.AppendTag(file, 10, protowire.VarintType), 0o100644)
	return entryOf(file)
}

// forgotten returns a record without size and mode.
func forgotten(name string) []byte {
	file := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9)
	return entryOf(protowire.AppendString(protowire.AppendTag(file, regularName, protowire.BytesType), name))
}

// entryOf returns the record of an open file.
func entryOf(file []byte) []byte {
	var entry []byte
	entry = protowire.AppendVarint(protowire.AppendTag(entry, 1, protowire.VarintType), 1)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, entryRegular, protowire.BytesType), file)
	return entry
}

func list(entries ...[]byte) []byte {
	text := binary.LittleEndian.AppendUint32(nil, imagefile.CommonMagic)
	text = binary.LittleEndian.AppendUint32(text, filesMagic)
	for _, entry := range entries {
		text = append(binary.LittleEndian.AppendUint32(text, uint32(len(entry))), entry...)
	}
	return text
}

func TestForgetSizes(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	path := filepath.Join(dir.Name(), name)
	if err := os.WriteFile(path, list(regular("/a", 5), regular("/b", 6), regular("/c", 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := ForgetSizes(dir, map[string]bool{"/a": true, "/c": true, "/d": true}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := list(forgotten("/a"), regular("/b", 6), forgotten("/c")); !bytes.Equal(got, want) {
			t.Errorf("got\n%x, want\n%x", got, want)
		}
	}
	if err := ForgetSizes(dir, nil); err != nil {
		t.Error(err)
	}
}

func TestMalformed(t *testing.T) {
	whole := list(regular("/a", 5))
	for cut := range len(whole) {
		if cut == imagefile.MagicBytes {
			continue // an empty list
		}
		if _, err := forgetSizes(whole[:cut], map[string]bool{"/a": true}); !errors.Is(err, imagefile.ErrMalformed) {
			t.Errorf("truncated at %d: %v", cut, err)
		}
	}
}

func FuzzForgetSizes(f *testing.F) {
	f.Add(list(regular("/a", 5), regular("/b", 6)))
	f.Add(list())
	f.Add(list([]byte{0x1a, 0x80}))
	f.Add(append(list(), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := forgetSizes(text, map[string]bool{"/a": true})
		if err != nil {
			return
		}
		again, err := forgetSizes(got, map[string]bool{"/a": true})
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("read after write: %v", err)
		}
	})
}
