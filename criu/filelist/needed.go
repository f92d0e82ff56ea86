package filelist

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/phos-gpu/phos/criu/imagefile"
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
		if err := imagefile.Records(replaced, func(entry []byte) error {
			return imagefile.Fields(entry, func(f imagefile.Field) error {
				if f.Number == replacedFile && f.Kind == protowire.VarintType {
					elsewhere[f.Value] = true
				}
				return nil
			})
		}); err != nil {
			return nil, err
		}
	}
	var found []Needed
	err := imagefile.Records(list, func(entry []byte) error {
		var regular []byte
		if err := imagefile.Fields(entry, func(f imagefile.Field) error {
			if f.Number == entryRegular {
				regular = f.Bytes
			}
			return nil
		}); err != nil {
			return err
		}
		var id uint64
		var file Needed
		err := imagefile.Fields(regular, func(f imagefile.Field) error {
			switch {
			case f.Number == regularID:
				id = f.Value
			case f.Number == regularName:
				file.Path = string(f.Bytes)
			case f.Number == regularBuildID && len(file.BuildID) < maxBuildIDBytes:
				file.BuildID = binary.LittleEndian.AppendUint32(file.BuildID, uint32(f.Value))
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
