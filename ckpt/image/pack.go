package image

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
)

// A pack consists of slots of ChunkBytes, an index and a trailer. A slot is either a whole chunk,
// which only the index names, or part of a run: a header and records. The first run begins with the
// pack's own header. So a whole chunk lies at a multiple of its own length, and a file system reads
// and writes it in one piece.
const (
	packMagic    = "phospack"
	runMagic     = "phosrun\n"
	trailerMagic = "phosindx"

	// RecordMagic begins every record.
	RecordMagic = "chnk"
	// PackHeaderBytes is the offset of the first record.
	PackHeaderBytes = 64
	// RecordHeaderBytes is the length of a record's header. Records begin at multiples of it.
	RecordHeaderBytes = 64
	// IndexEntryBytes is the length of an index entry.
	IndexEntryBytes = 56
	// TrailerBytes is the length of a pack's trailer.
	TrailerBytes = 64
	// PageBytes is the alignment of a large record's content, so that writing it touches whole
	// pages.
	PageBytes = 4096
	// LargeBytes is the length from which a record's content is aligned.
	LargeBytes = 64 << 10
	// SumBytes is the length of the checksum before a compressed content.
	SumBytes = 16
	// MaxStoredBytes is the longest stored content: an uncompressed chunk.
	MaxStoredBytes = ChunkBytes
)

// Encoding is how a content is stored.
type Encoding uint8

// Encodings.
const (
	// Raw is the content itself.
	Raw Encoding = 0
	// Zstd is SumBytes of the BLAKE3 of a zstd frame, followed by the frame. Both together are
	// shorter than the content.
	Zstd Encoding = 1
)

// ID is the random name of a store or a pack.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID parses the output of String.
func ParseID(text string) (ID, error) {
	var id ID
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) || hex.EncodeToString(raw) != text {
		return ID{}, malformed("%.80q is not the ID of a pack or a store", text)
	}
	copy(id[:], raw)
	return id, nil
}

// PackHeader is the beginning of a pack.
type PackHeader struct{ Store, Pack ID }

// Encode returns the header's bytes.
func (h PackHeader) Encode() []byte {
	out := append(make([]byte, 0, PackHeaderBytes), packMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = append(out, h.Store[:]...)
	out = append(out, h.Pack[:]...)
	return append(out, check(16, out)...)
}

// DecodePackHeader decodes PackHeaderBytes bytes.
func DecodePackHeader(raw []byte) (PackHeader, error) {
	if len(raw) != PackHeaderBytes || string(raw[:8]) != packMagic {
		return PackHeader{}, malformed("not a pack")
	}
	if err := checkVersion("pack", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return PackHeader{}, err
	}
	h := PackHeader{Store: ID(raw[16:32]), Pack: ID(raw[32:48])}
	if !bytes.Equal(raw, h.Encode()) {
		return PackHeader{}, malformed("the pack's header is damaged")
	}
	return h, nil
}

// RunHeaderBytes is the length of a run's header; the first run begins with the pack's header.
const RunHeaderBytes = PackHeaderBytes

// EncodeRun returns the header of a run at an offset of a pack.
func EncodeRun(pack ID, offset int64) []byte {
	out := append(make([]byte, 0, RunHeaderBytes), runMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint64(out, uint64(offset))
	out = binary.LittleEndian.AppendUint64(out, 0)
	out = append(out, pack[:]...)
	return append(out, check(16, out)...)
}

// IsRun reports whether raw is the header of a run at an offset of a pack.
func IsRun(raw []byte, pack ID, offset int64) bool { return bytes.Equal(raw, EncodeRun(pack, offset)) }

// Record describes one stored content.
type Record struct {
	Hash     Hash
	Encoding Encoding
	// ContentBytes is the length of the content, StoredBytes that of its stored form, PadBytes that
	// of the padding before it.
	ContentBytes, StoredBytes, PadBytes uint32
}

// valid reports whether the lengths are consistent.
func (r Record) valid() bool {
	if r.Hash.IsZero() || r.ContentBytes == 0 || r.ContentBytes > ChunkBytes || r.PadBytes >= PageBytes {
		return false
	}
	switch r.Encoding {
	case Raw:
		return r.StoredBytes == r.ContentBytes
	case Zstd:
		return r.StoredBytes > SumBytes && r.StoredBytes < r.ContentBytes
	}
	return false
}

// Encode returns the header of the record.
func (r Record) Encode() []byte {
	out := append(make([]byte, 0, RecordHeaderBytes), RecordMagic...)
	out = append(out, byte(r.Encoding), 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, r.ContentBytes)
	out = binary.LittleEndian.AppendUint32(out, r.StoredBytes)
	out = binary.LittleEndian.AppendUint32(out, r.PadBytes)
	out = binary.LittleEndian.AppendUint32(out, 0)
	return append(append(out, check(8, out, r.Hash[:])...), r.Hash[:]...)
}

// DecodeRecord decodes RecordHeaderBytes bytes.
func DecodeRecord(raw []byte) (Record, error) {
	if len(raw) != RecordHeaderBytes || string(raw[:4]) != RecordMagic {
		return Record{}, malformed("not a record")
	}
	r := Record{
		Hash: Hash(raw[32:]), Encoding: Encoding(raw[4]), ContentBytes: binary.LittleEndian.Uint32(raw[8:]),
		StoredBytes: binary.LittleEndian.Uint32(raw[12:]), PadBytes: binary.LittleEndian.Uint32(raw[16:]),
	}
	if !r.valid() || !bytes.Equal(raw, r.Encode()) {
		return Record{}, malformed("the header of a record is damaged")
	}
	return r, nil
}

// Bytes is the length of the whole record, up to where the next one may begin.
func (r Record) Bytes() int64 {
	return RoundUp(RecordHeaderBytes+int64(r.PadBytes)+int64(r.StoredBytes), RecordHeaderBytes)
}

// PadFor returns the padding of a record with so many stored bytes at an offset.
func PadFor(offset int64, storedBytes int) uint32 {
	if storedBytes < LargeBytes {
		return 0
	}
	at := offset + RecordHeaderBytes
	return uint32(RoundUp(at, PageBytes) - at)
}

// RoundUp returns the next multiple of a power of two.
func RoundUp(n, multiple int64) int64 { return (n + multiple - 1) &^ (multiple - 1) }

// Slot reports whether the content begins at a slot and fills it. It may still be part of a run.
func (p Place) Slot() bool {
	return p.Offset%ChunkBytes == 0 && p.StoredBytes == ChunkBytes && p.Encoding == Raw
}

// Place is the location of a content in a pack.
type Place struct {
	Hash Hash
	// Offset is that of the stored bytes.
	Offset                    uint64
	StoredBytes, ContentBytes uint32
	Encoding                  Encoding
}

// AppendPlace appends the index entry of a place.
func AppendPlace(out []byte, p Place) []byte {
	out = append(out, p.Hash[:]...)
	out = binary.LittleEndian.AppendUint64(out, p.Offset)
	out = binary.LittleEndian.AppendUint32(out, p.StoredBytes)
	out = binary.LittleEndian.AppendUint32(out, p.ContentBytes)
	return append(out, byte(p.Encoding), 0, 0, 0, 0, 0, 0, 0)
}

// DecodePlace decodes an index entry. index is the offset of the index in its pack.
func DecodePlace(raw []byte, index int64) (Place, error) {
	if len(raw) != IndexEntryBytes {
		return Place{}, malformed("an index entry of %d bytes", len(raw))
	}
	p := Place{
		Hash: Hash(
			raw,
		), Offset: binary.LittleEndian.Uint64(raw[32:]), StoredBytes: binary.LittleEndian.Uint32(raw[40:]),
		ContentBytes: binary.LittleEndian.Uint32(raw[44:]), Encoding: Encoding(raw[48]),
	}
	r := Record{Hash: p.Hash, Encoding: p.Encoding, ContentBytes: p.ContentBytes, StoredBytes: p.StoredBytes}
	inside := p.Offset >= PackHeaderBytes+RecordHeaderBytes && p.Offset <= uint64(index) &&
		uint64(index)-p.Offset >= uint64(p.StoredBytes)
	if !r.valid() || !inside || binary.LittleEndian.Uint64(raw[48:])>>8 != 0 {
		return Place{}, malformed("an entry of the index is damaged")
	}
	return p, nil
}

// Trailer is the end of a pack.
type Trailer struct {
	// Index is the offset of the index, Entries the number of its entries.
	Index, Entries uint64
	// Sum is the BLAKE3 of the index and of the trailer's head.
	Sum Hash
}

// Head returns the trailer's bytes before the sum.
func (t Trailer) Head() []byte {
	out := append(make([]byte, 0, TrailerBytes), trailerMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint64(out, t.Index)
	return binary.LittleEndian.AppendUint64(out, t.Entries)
}

// DecodeTrailer decodes the last TrailerBytes of a pack with the length packBytes.
func DecodeTrailer(raw []byte, packBytes int64) (Trailer, error) {
	if len(raw) != TrailerBytes || string(raw[:8]) != trailerMagic {
		return Trailer{}, malformed("the pack has no index")
	}
	if err := checkVersion("index", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return Trailer{}, err
	}
	t := Trailer{
		Index:   binary.LittleEndian.Uint64(raw[16:]),
		Entries: binary.LittleEndian.Uint64(raw[24:]),
		Sum:     Hash(raw[32:]),
	}
	room := uint64(packBytes) - TrailerBytes
	if !bytes.Equal(t.Head(), raw[:32]) || packBytes < PackHeaderBytes+TrailerBytes ||
		t.Index < PackHeaderBytes || t.Index > room ||
		t.Index%RecordHeaderBytes != 0 ||
		(room-t.Index)%IndexEntryBytes != 0 ||
		t.Entries != (room-t.Index)/IndexEntryBytes {
		return Trailer{}, malformed("the index of the pack is damaged")
	}
	return t, nil
}
