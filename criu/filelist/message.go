package filelist

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// records calls each for every record of a CRIU image.
func records(text []byte, each func(record []byte) error) error {
	order := binary.LittleEndian
	if len(text) < magicBytes || order.Uint32(text) != commonMagic {
		return fmt.Errorf("%w: wrong magic number", ErrMalformed)
	}
	for rest := text[magicBytes:]; len(rest) > 0; {
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

// field is a field of a message. value is set for a number, bytes for a string or a message; raw is
// the encoded field.
type field struct {
	number     protowire.Number
	kind       protowire.Type
	value      uint64
	bytes, raw []byte
}

// fields calls each for every field of a message.
func fields(message []byte, each func(field) error) error {
	for rest := message; len(rest) > 0; {
		number, kind, tagBytes := protowire.ConsumeTag(rest)
		if tagBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(tagBytes))
		}
		valueBytes := protowire.ConsumeFieldValue(number, kind, rest[tagBytes:])
		if valueBytes < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(valueBytes))
		}
		f := field{number: number, kind: kind, raw: rest[:tagBytes+valueBytes]}
		if kind == protowire.VarintType {
			f.value, _ = protowire.ConsumeVarint(rest[tagBytes:])
		}
		if kind == protowire.BytesType {
			f.bytes, _ = protowire.ConsumeBytes(rest[tagBytes:])
		}
		if err := each(f); err != nil {
			return err
		}
		rest = rest[len(f.raw):]
	}
	return nil
}
