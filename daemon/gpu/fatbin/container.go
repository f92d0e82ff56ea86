package fatbin

import "encoding/binary"

// The fat binary's layout; all numbers are little endian.
const (
	binMagic = 0xba55ed50

	binHeaderBytes   = 16
	entryHeaderBytes = 64 // the fields read here; real headers are 72 and more

	kindPTX = 1
	kindELF = 2

	flagLZ4      = 0x2000
	flagZstd     = 0x8000
	flagSpecific = 0x10_0000 // for sm_90a, not sm_90
	flagFamily   = 0x20_0000 // for sm_100f
)

// binBytes returns the length of the fat binary that starts with this header of at least 16 bytes.
func binBytes(header []byte) (uint64, error) {
	if len(header) < binHeaderBytes {
		return 0, refuse(0, ErrTruncated, "a fat binary header has %d bytes, not %d", binHeaderBytes, len(header))
	}
	if magic := binary.LittleEndian.Uint32(header); magic != binMagic {
		return 0, refuse(0, ErrUnknownFormat, "fat binary magic %#x", magic)
	}
	headerBytes := uint64(binary.LittleEndian.Uint16(header[6:]))
	body := binary.LittleEndian.Uint64(header[8:])
	switch version := binary.LittleEndian.Uint16(header[4:]); {
	case version != 1:
		return 0, refuse(4, ErrVersion, "fat binary version %d", version)
	case headerBytes < binHeaderBytes:
		return 0, refuse(6, ErrTruncated, "header of %d bytes", headerBytes)
	case body > MaxImageBytes-headerBytes:
		return 0, refuse(8, ErrTooLarge, "%d bytes of entries", body)
	}
	return headerBytes + body, nil
}

// entry is one decoded entry header, its payload still packed.
type entry struct {
	offset   uint64 // of the header in the image
	kind     uint16
	sm       int
	flags    uint64
	packed   []byte
	unpacked uint64
	next     uint64 // offset of the following entry
}

func parseFatbin(data []byte) (*Images, error) {
	size, err := binBytes(data)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(data)) {
		return nil, refuse(8, ErrTruncated, "%d of %d bytes", len(data), size)
	}
	data = data[:size]
	images := &Images{Whole: data}
	var total uint64
	count := 0
	for at := uint64(binary.LittleEndian.Uint16(data[6:])); at < size; count++ {
		if count == MaxEntries {
			return nil, refuse(at, ErrTooLarge, "more than %d entries", MaxEntries)
		}
		e, err := parseEntry(data, at)
		if err != nil {
			return nil, err
		}
		if !e.deferred() {
			total += e.unpacked
		}
		if total > MaxUnpackedBytes {
			return nil, refuse(at, ErrTooLarge, "entries unpack to more than %d bytes", MaxUnpackedBytes)
		}
		if err := images.add(e); err != nil {
			return nil, err
		}
		at = e.next
	}
	return images, nil
}

// parseEntry reads the entry header at an offset and checks it against the image's length.
func parseEntry(data []byte, at uint64) (*entry, error) {
	left := data[at:]
	if len(left) < entryHeaderBytes {
		return nil, refuse(at, ErrTruncated, "entry header")
	}
	headerBytes := uint64(binary.LittleEndian.Uint32(left[4:]))
	payload := binary.LittleEndian.Uint64(left[8:])
	if headerBytes < entryHeaderBytes || headerBytes > uint64(len(left)) || payload > uint64(len(left))-headerBytes {
		return nil, refuse(at, ErrTruncated, "entry of %d+%d bytes, %d left", headerBytes, payload, len(left))
	}
	e := &entry{
		offset:   at,
		kind:     binary.LittleEndian.Uint16(left),
		sm:       int(binary.LittleEndian.Uint16(left[28:])), // the upper half has flags of newer tools
		flags:    binary.LittleEndian.Uint64(left[40:]),
		packed:   left[headerBytes : headerBytes+payload],
		unpacked: payload,
		next:     at + headerBytes + payload,
	}
	if e.flags&(flagLZ4|flagZstd) == 0 {
		return e, nil
	}
	exact := uint64(binary.LittleEndian.Uint32(left[16:]))
	if exact > payload {
		return nil, refuse(at+16, ErrTruncated, "%d compressed bytes in %d", exact, payload)
	}
	if exact > 0 {
		e.packed = e.packed[:exact]
	}
	e.unpacked = binary.LittleEndian.Uint64(left[56:])
	if e.unpacked > MaxEntryBytes {
		return nil, refuse(at+56, ErrTooLarge, "entry of %d bytes, at most %d", e.unpacked, MaxEntryBytes)
	}
	return e, nil
}

// deferred reports whether the entry is unpacked only when it is chosen: machine code of which the
// header says all that the choice needs. NCCL's machine code is over 1 GiB for all architectures.
func (e *entry) deferred() bool {
	return e.kind == kindELF && e.sm != 0 && e.flags&(flagLZ4|flagZstd) != 0
}

// add unpacks an entry of a known kind and skips others (intermediate code of other compilers).
func (i *Images) add(e *entry) error {
	if e.kind != kindPTX && e.kind != kindELF {
		return nil
	}
	if e.deferred() {
		i.Cubins = append(i.Cubins, Cubin{SM: e.sm, Specific: e.flags&flagSpecific != 0, packed: e})
		return nil
	}
	code, err := e.unpack()
	if err != nil {
		return err
	}
	if e.kind == kindPTX {
		text := newText(code, e.sm)
		text.Specific = text.Specific || e.flags&flagSpecific != 0
		text.Family = text.Family || e.flags&flagFamily != 0
		i.Texts = append(i.Texts, text)
		return nil
	}
	cubin := newCubin(code)
	cubin.Specific = cubin.Specific || e.flags&flagSpecific != 0
	if e.sm != 0 {
		cubin.SM = e.sm
	}
	i.Cubins = append(i.Cubins, cubin)
	return nil
}
