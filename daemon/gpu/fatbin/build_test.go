package fatbin

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is how an entry is packed.
type Compression int

// The compressions.
const (
	Plain Compression = iota
	LZ4
	Zstd
)

// Builder writes a fat binary, as the compiler does. The zero value is ready.
type Builder struct {
	body []byte
}

// PTX adds a PTX text for an architecture, with a trailing NUL as the compiler does.
func (b *Builder) PTX(sm int, text string, compression Compression) error {
	return b.entry(kindPTX, sm, append([]byte(text), 0), compression)
}

// Cubin adds machine code.
func (b *Builder) Cubin(sm int, elf []byte, compression Compression) error {
	return b.entry(kindELF, sm, elf, compression)
}

// Bytes returns the finished fat binary.
func (b *Builder) Bytes() []byte {
	out := binary.LittleEndian.AppendUint32(nil, binMagic)
	out = binary.LittleEndian.AppendUint16(out, 1)
	out = binary.LittleEndian.AppendUint16(out, binHeaderBytes)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(b.body)))
	return append(out, b.body...)
}

func (b *Builder) entry(kind uint16, sm int, code []byte, compression Compression) error {
	packed, flags, err := pack(code, compression)
	if err != nil {
		return fmt.Errorf("pack entry: %w", err)
	}
	const headerBytes = 72
	var header [headerBytes]byte
	binary.LittleEndian.PutUint16(header[0:], kind)
	binary.LittleEndian.PutUint16(header[2:], 0x0101)
	binary.LittleEndian.PutUint32(header[4:], headerBytes)
	padding := -len(packed) & 7
	binary.LittleEndian.PutUint64(header[8:], uint64(len(packed)+padding))
	binary.LittleEndian.PutUint32(header[28:], uint32(sm))
	binary.LittleEndian.PutUint64(header[40:], 0x11|flags)
	if flags != 0 {
		binary.LittleEndian.PutUint32(header[16:], uint32(len(packed)))
		binary.LittleEndian.PutUint64(header[56:], uint64(len(code)))
	}
	b.body = append(b.body, header[:]...)
	b.body = append(b.body, packed...)
	b.body = append(b.body, make([]byte, padding)...)
	return nil
}

func pack(code []byte, compression Compression) (packed []byte, flags uint64, err error) {
	switch compression {
	case LZ4:
		packed = make([]byte, lz4.CompressBlockBound(len(code)))
		n, err := lz4.CompressBlock(code, packed, nil)
		if err != nil {
			return nil, 0, err
		}
		return packed[:n], flagLZ4, nil
	case Zstd:
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, 0, err
		}
		packed = encoder.EncodeAll(code, nil)
		return packed, flagZstd, encoder.Close()
	default:
		return code, 0, nil
	}
}

// Link packs PTX texts into a container.
func Link(texts []string) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(linkMagic), linkVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(texts)))
	for _, text := range texts {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(text)))
		out = append(out, text...)
		out = append(out, make([]byte, -len(text)&7)...)
	}
	return out
}
