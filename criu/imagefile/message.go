package imagefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// MagicBytes is the length of the two magic numbers with which an image begins.
const MagicBytes = 8

const (
	// CommonMagic begins every image of CRIU.
	CommonMagic = 0x54564319
	frameBytes  = 4
)

// ErrMalformed is returned when an image is not what CRIU writes.
var ErrMalformed = errors.New("image of CRIU: malformed")

// Records calls each for every record of a CRIU image.
func Records(text []byte, each func(record []byte) error) error {
	order := binary.LittleEndian
	if len(text) < MagicBytes || order.Uint32(text) != CommonMagic {
		return fmt.Errorf("%w: wrong magic number", ErrMalformed)
	}
	for rest := text[MagicBytes:]; len(rest) > 0; {
		if len(rest) < frameBytes {
			return fmt.Errorf("%w: truncated", ErrMalformed)
		}
		bytes := order.Uint32(rest)
		if uint64(bytes) > uint64(len(rest)-frameBytes) || bytes > math.MaxInt32 {
			return fmt.Errorf("%w: truncated", ErrMalformed)
		}
		if err := each(rest[frameBytes : frameBytes+bytes]); err != nil {
			return err
		}
		rest = rest[frameBytes+bytes:]
	}
	return nil
}

// Field is a field of a message. Value is set for a number, Bytes for a string or a message; Raw is
// the encoded field.
type Field struct {
	Number     protowire.Number
	Kind       protowire.Type
	Value      uint64
	Bytes, Raw []byte
}

// Fields calls each for every field of a message.
func Fields(message []byte, each func(Field) error) error {
	for rest := message; len(rest) > 0; {
		number, kind, tagBytes := protowire.ConsumeTag(rest)
		if tagBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(tagBytes))
		}
		valueBytes := protowire.ConsumeFieldValue(number, kind, rest[tagBytes:])
		if valueBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(valueBytes))
		}
		f := Field{Number: number, Kind: kind, Raw: rest[:tagBytes+valueBytes]}
		if kind == protowire.VarintType {
			f.Value, _ = protowire.ConsumeVarint(rest[tagBytes:])
		}
		if kind == protowire.BytesType {
			f.Bytes, _ = protowire.ConsumeBytes(rest[tagBytes:])
		}
		if err := each(f); err != nil {
			return err
		}
		rest = rest[len(f.Raw):]
	}
	return nil
}
