package filelist

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Names of CRIU's images that ReadNeeded reads.
const (
	List = name
	// Replaced is the list of files that are brought back in another way than by their names: removed ones, above all.
	Replaced = "remap-fpath.img"
)

// Numbers of fields in CRIU's messages.
const (
	regularID      = 1
	regularBuildID = 11
	replacedFile   = 1
)

// longestBuildID is more than any has.
const (
	longestBuildID  = 64
	buildIDWordSize = 4
)

// Needed is a program or a library that processes open again by its name. It must be the very one.
type Needed struct {
	Path    string
	BuildID []byte
}

// ReadNeeded reads which there are. Replaced may be empty.
func ReadNeeded(list, replaced []byte) ([]Needed, error) {
	elsewhere := make(map[uint64]bool)
	if len(replaced) > 0 {
		if err := records(replaced, func(entry []byte) error {
			return fields(entry, func(number protowire.Number, value uint64, _ []byte) {
				if number == replacedFile {
					elsewhere[value] = true
				}
			})
		}); err != nil {
			return nil, err
		}
	}
	var found []Needed
	err := records(list, func(entry []byte) error {
		var regular []byte
		if err := fields(entry, func(number protowire.Number, _ uint64, bytes []byte) {
			if number == entryRegular {
				regular = bytes
			}
		}); err != nil {
			return err
		}
		var id uint64
		var file Needed
		err := fields(regular, func(number protowire.Number, value uint64, bytes []byte) {
			switch {
			case number == regularID:
				id = value
			case number == regularName:
				file.Path = string(bytes)
			case number == regularBuildID && len(file.BuildID) < longestBuildID:
				file.BuildID = binary.LittleEndian.AppendUint32(file.BuildID, uint32(value))
			}
		})
		if len(file.BuildID) > 0 && file.Path != "" && !elsewhere[id] {
			found = append(found, file)
		}
		return err
	})
	return found, err
}

// records goes through the records of one of CRIU's images.
func records(text []byte, each func(record []byte) error) error {
	order := binary.LittleEndian
	if len(text) < magicBytes || order.Uint32(text) != commonMagic {
		return fmt.Errorf("%w: it begins with another mark", ErrMalformed)
	}
	for rest := text[magicBytes:]; len(rest) > 0; {
		if len(rest) < frameBytes {
			return fmt.Errorf("%w: cut off", ErrMalformed)
		}
		bytes := order.Uint32(rest)
		if uint64(bytes) > uint64(len(rest)-frameBytes) || bytes > math.MaxInt32 {
			return fmt.Errorf("%w: cut off", ErrMalformed)
		}
		if err := each(rest[frameBytes : frameBytes+bytes]); err != nil {
			return err
		}
		rest = rest[frameBytes+bytes:]
	}
	return nil
}

// fields goes through those of a message that are numbers or bytes.
func fields(message []byte, each func(number protowire.Number, value uint64, bytes []byte)) error {
	for rest := message; len(rest) > 0; {
		number, kind, tagBytes := protowire.ConsumeTag(rest)
		if tagBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(tagBytes))
		}
		valueBytes := protowire.ConsumeFieldValue(number, kind, rest[tagBytes:])
		if valueBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(valueBytes))
		}
		if kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(rest[tagBytes:])
			each(number, value, nil)
		}
		if kind == protowire.BytesType {
			bytes, _ := protowire.ConsumeBytes(rest[tagBytes:])
			each(number, 0, bytes)
		}
		rest = rest[tagBytes+valueBytes:]
	}
	return nil
}
