package filelist

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Names of CRIU's images that ReadNeeded reads.
const (
	List = name
	// Replaced is the list of files that CRIU restores in another way than by their names, mainly
	// removed ones.
	Replaced = "remap-fpath.img"
)

// Numbers of fields in CRIU's messages.
const (
	regularID      = 1
	regularBuildID = 11
	replacedFile   = 1
)

// maxBuildIDBytes is an upper bound for the size of a build ID.
const (
	maxBuildIDBytes = 64
	buildIDWordSize = 4
)

// Needed is a program or a library that processes open again by its name. It must be the same file
// as before.
type Needed struct {
	Path    string
	BuildID []byte
}

// ReadNeeded returns the needed files of both lists. replaced may be empty.
func ReadNeeded(list, replaced []byte) ([]Needed, error) {
	elsewhere := make(map[uint64]bool)
	if len(replaced) > 0 {
		if err := records(replaced, func(entry []byte) error {
			return fields(entry, func(f field) error {
				if f.number == replacedFile && f.kind == protowire.VarintType {
					elsewhere[f.value] = true
				}
				return nil
			})
		}); err != nil {
			return nil, err
		}
	}
	var found []Needed
	err := records(list, func(entry []byte) error {
		var regular []byte
		if err := fields(entry, func(f field) error {
			if f.number == entryRegular {
				regular = f.bytes
			}
			return nil
		}); err != nil {
			return err
		}
		var id uint64
		var file Needed
		err := fields(regular, func(f field) error {
			switch {
			case f.number == regularID:
				id = f.value
			case f.number == regularName:
				file.Path = string(f.bytes)
			case f.number == regularBuildID && len(file.BuildID) < maxBuildIDBytes:
				file.BuildID = binary.LittleEndian.AppendUint32(file.BuildID, uint32(f.value))
			}
			return nil
		})
		if len(file.BuildID) > 0 && file.Path != "" && !elsewhere[id] {
			found = append(found, file)
		}
		return err
	})
	return found, err
}
