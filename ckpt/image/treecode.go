package image

import (
	"encoding/binary"
	"strings"
)

const (
	treeMagic = "phostree"
	listMagic = "phoslist"

	treeHeaderBytes  = 16
	entryHeaderBytes = 20 // before the name: kind, reserved, length of name, bytes, chunks
	chunkBytes       = 44
	listHeaderBytes  = 24

	// MaxTreeBytes is the longest tree: it describes 6 TiB of whole chunks.
	MaxTreeBytes = 128 << 20
	// MaxNameBytes is the longest name of an entry.
	MaxNameBytes = 4095
)

// Encode returns the bytes of a tree. It rejects what Decode would reject.
func (t *Tree) Encode() ([]byte, error) {
	length := treeHeaderBytes
	for i := range t.Entries {
		length += entryHeaderBytes + len(t.Entries[i].Name) + chunkBytes*len(t.Entries[i].Chunks)
	}
	if length > MaxTreeBytes {
		return nil, malformed("a tree of %d bytes; at most %d", length, MaxTreeBytes)
	}
	out := append(make([]byte, 0, length), treeMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(t.Entries)))
	last := ""
	for i := range t.Entries {
		entry := &t.Entries[i]
		if err := entry.validate(last); err != nil {
			return nil, err
		}
		last = entry.Name
		out = entry.appendTo(out)
	}
	return out, nil
}

// appendTo appends the binary form of the entry to out: lengths, name, chunks.
func (e *Entry) appendTo(out []byte) []byte {
	out = append(out, byte(e.Kind), 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(e.Name)))
	out = binary.LittleEndian.AppendUint64(out, e.Bytes)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(e.Chunks)))
	out = append(out, e.Name...)
	for _, chunk := range e.Chunks {
		out = binary.LittleEndian.AppendUint64(out, chunk.Address)
		out = binary.LittleEndian.AppendUint32(out, chunk.Bytes)
		out = append(out, chunk.Hash[:]...)
	}
	return out
}

// DecodeTree decodes a tree.
func DecodeTree(raw []byte) (*Tree, error) {
	if len(raw) < treeHeaderBytes || string(raw[:8]) != treeMagic {
		return nil, malformed("not a tree")
	}
	if err := checkVersion("tree", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return nil, err
	}
	count := int(binary.LittleEndian.Uint32(raw[12:]))
	raw = raw[treeHeaderBytes:]
	if count > len(raw)/entryHeaderBytes {
		return nil, malformed("a tree of %d entries in %d bytes", count, len(raw))
	}
	tree, last := &Tree{Entries: make([]Entry, count)}, ""
	for i := range tree.Entries {
		entry := &tree.Entries[i]
		rest, err := entry.decode(raw)
		if err == nil {
			err = entry.validate(last)
		}
		if err != nil {
			return nil, err
		}
		raw, last = rest, entry.Name
	}
	if len(raw) > 0 {
		return nil, malformed("%d bytes after the tree", len(raw))
	}
	return tree, nil
}

// decode decodes one entry and returns the bytes after it.
func (e *Entry) decode(raw []byte) ([]byte, error) {
	if len(raw) < entryHeaderBytes {
		return nil, malformed("the tree ends within an entry")
	}
	name, count := int(binary.LittleEndian.Uint16(raw[2:])), binary.LittleEndian.Uint64(raw[12:])
	if raw[1] != 0 {
		return nil, malformed("a reserved byte of an entry is %d", raw[1])
	}
	e.Kind, e.Bytes = Kind(raw[0]), binary.LittleEndian.Uint64(raw[4:])
	raw = raw[entryHeaderBytes:]
	if name > len(raw) || count > uint64(len(raw)-name)/chunkBytes {
		return nil, malformed("an entry of %d chunks in %d bytes", count, len(raw))
	}
	e.Name, raw = string(raw[:name]), raw[name:]
	if count > 0 {
		e.Chunks = make([]Chunk, count)
	}
	for i := range e.Chunks {
		e.Chunks[i].Address = binary.LittleEndian.Uint64(raw)
		e.Chunks[i].Bytes = binary.LittleEndian.Uint32(raw[8:])
		e.Chunks[i].Hash = Hash(raw[12:chunkBytes])
		raw = raw[chunkBytes:]
	}
	return raw, nil
}

// List names the parts of a tree that is longer than a chunk.
type List struct {
	Bytes uint64
	Parts []Hash
}

// IsList reports whether raw is a list of a tree's parts and not the tree.
func IsList(raw []byte) bool { return strings.HasPrefix(string(raw[:min(len(raw), 8)]), listMagic) }

// Encode returns the bytes of a list.
func (l *List) Encode() []byte {
	out := append(make([]byte, 0, listHeaderBytes+len(l.Parts)*len(Hash{})), listMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(l.Parts)))
	out = binary.LittleEndian.AppendUint64(out, l.Bytes)
	for _, part := range l.Parts {
		out = append(out, part[:]...)
	}
	return out
}

// DecodeList decodes a list. All parts must differ, so that the tree is not longer than the stored
// parts.
func DecodeList(raw []byte) (*List, error) {
	if len(raw) < listHeaderBytes || !IsList(raw) {
		return nil, malformed("not a list of a tree's parts")
	}
	if err := checkVersion("list of a tree's parts", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return nil, err
	}
	list, count := &List{Bytes: binary.LittleEndian.Uint64(raw[16:])}, uint64(binary.LittleEndian.Uint32(raw[12:]))
	raw = raw[listHeaderBytes:]
	if uint64(len(raw)) != count*uint64(len(Hash{})) {
		return nil, malformed("a list of %d parts in %d bytes", count, len(raw))
	}
	if list.Bytes > MaxTreeBytes {
		return nil, malformed("a tree of %d bytes; at most %d", list.Bytes, MaxTreeBytes)
	}
	if list.Bytes <= ChunkBytes || list.Bytes > count*ChunkBytes || list.Bytes <= (count-1)*ChunkBytes {
		return nil, malformed("a tree of %d bytes in %d parts", list.Bytes, count)
	}
	seen := make(map[Hash]bool, count)
	list.Parts = make([]Hash, count)
	for i := range list.Parts {
		part := Hash(raw[i*len(Hash{}):])
		if part.IsZero() || seen[part] {
			return nil, malformed("part %d of a tree is zero or a duplicate", i)
		}
		list.Parts[i], seen[part] = part, true
	}
	return list, nil
}
