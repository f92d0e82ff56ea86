package filelist

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/phos-gpu/phos/criu/imagefile"
)

// program returns a record of a file with a build ID, as CRIU writes it.
func program(id uint64, name string, words ...uint64) []byte {
	file := protowire.AppendVarint(protowire.AppendTag(nil, regularID, protowire.VarintType), id)
	file = protowire.AppendString(protowire.AppendTag(file, regularName, protowire.BytesType), name)
	for _, word := range words {
		file = protowire.AppendVarint(protowire.AppendTag(file, regularBuildID, protowire.VarintType), word)
	}
	entry := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	return protowire.AppendBytes(protowire.AppendTag(entry, entryRegular, protowire.BytesType), file)
}

func replacedBy(id uint64) []byte {
	entry := protowire.AppendVarint(protowire.AppendTag(nil, replacedFile, protowire.VarintType), id)
	return protowire.AppendVarint(protowire.AppendTag(entry, 2, protowire.VarintType), 77)
}

func TestReadNeeded(t *testing.T) {
	all := list(
		regular("/data", 5),
		program(1, "/bin/a", 0x04030201, 5),
		program(2, "/removed", 6),
		program(3, "/bin/b", 7),
	)
	found, err := ReadNeeded(all, list(replacedBy(2)))
	if err != nil || len(found) != 2 || found[0].Path != "/bin/a" || found[1].Path != "/bin/b" ||
		!bytes.Equal(found[0].BuildID, []byte{1, 2, 3, 4, 5, 0, 0, 0}) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := ReadNeeded(all, nil); err != nil || len(found) != 3 {
		t.Errorf("without replaced files: %+v, %v", found, err)
	}
	for cut := range len(all) {
		if _, err := ReadNeeded(all[:cut], nil); err != nil && !errors.Is(err, imagefile.ErrMalformed) {
			t.Errorf("truncated at %d: %v", cut, err)
		}
	}
}

func FuzzReadNeeded(f *testing.F) {
	f.Add(list(program(1, "/bin/a", 5, 6)), list(replacedBy(1)))
	f.Add(list(regular("/a", 5)), []byte{})
	f.Fuzz(func(t *testing.T, text, replaced []byte) {
		found, err := ReadNeeded(text, replaced)
		if err != nil && !errors.Is(err, imagefile.ErrMalformed) {
			t.Error(err)
		}
		for _, file := range found {
			if len(file.BuildID) > maxBuildIDBytes+buildIDWordSize || file.Path == "" {
				t.Errorf("%+v", file)
			}
		}
	})
}
