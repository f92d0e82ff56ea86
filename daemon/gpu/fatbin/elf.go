package fatbin

import "encoding/binary"

// The parts of ELF64 that matter here.
const (
	elfHeaderBytes  = 64
	elfMachineCUDA  = 190
	elfABIVersionV2 = 8 // since then the architecture stands in the second byte of the flags
)

func parseELF(data []byte) (*Images, error) {
	size, err := elfBytes(data)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(data)) {
		return nil, refuse(0, ErrTruncated, "%d of %d bytes", len(data), size)
	}
	if machine := binary.LittleEndian.Uint16(data[18:]); machine != elfMachineCUDA {
		return nil, refuse(18, ErrUnknownFormat, "ELF file for machine %d, not a GPU's", machine)
	}
	return &Images{Cubins: []Cubin{{SM: CubinSM(data), ELF: data[:size]}}}, nil
}

// CubinSM reads the architecture from a cubin's header, 90 for sm_90; 0 where the bytes are no cubin.
func CubinSM(data []byte) int {
	if len(data) < elfHeaderBytes || string(data[:4]) != "\x7fELF" || binary.LittleEndian.Uint16(data[18:]) != elfMachineCUDA {
		return 0
	}
	flags := binary.LittleEndian.Uint32(data[48:])
	if data[8] >= elfABIVersionV2 {
		return int(flags >> 8 & 0xff)
	}
	return int(flags & 0xff)
}

// elfBytes is the length of an ELF file as its header tells it: the end of the section header table or of the
// program header table, whichever is later. Sections of a cubin lie before its tables.
func elfBytes(header []byte) (uint64, error) {
	if len(header) < elfHeaderBytes {
		return 0, refuse(0, ErrTruncated, "an ELF header has %d bytes, not %d", elfHeaderBytes, len(header))
	}
	if string(header[:4]) != "\x7fELF" || header[4] != 2 || header[5] != 1 {
		return 0, refuse(0, ErrUnknownFormat, "not a 64-bit little-endian ELF file")
	}
	end := uint64(elfHeaderBytes)
	for _, table := range []struct{ offset, entryBytes, entries int }{{32, 54, 56}, {40, 58, 60}} {
		start := binary.LittleEndian.Uint64(header[table.offset:])
		bytes := uint64(binary.LittleEndian.Uint16(header[table.entryBytes:])) * uint64(binary.LittleEndian.Uint16(header[table.entries:]))
		if start > MaxImageBytes {
			return 0, refuse(uint64(table.offset), ErrTooLarge, "table at %d", start)
		}
		if bytes > 0 {
			end = max(end, start+bytes)
		}
	}
	return end, nil
}
