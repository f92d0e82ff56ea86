package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// The parts of ELF64 that matter here.
const (
	elfHeaderBytes  = 64
	elfMachineCUDA  = 190
	elfVersionAt    = 20
	elfABIVersionV2 = 8 // from this version on, the second byte of the flags has the architecture
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
	return &Images{Cubins: []Cubin{newCubin(data[:size])}}, nil
}

// The flags of code for exactly one architecture (sm_90a), by ABI version. Compilers of CUDA 13
// write a record of the section .nv.compat instead.
const (
	elfSpecificV1     = 0x800
	firstSpecific     = 90 // for earlier architectures the bit has another meaning
	elfSpecificV2     = 0x8
	compatSection     = ".nv.compat"
	compatSpecific    = 0x09
	compatSized       = 4
	compatHeaderBytes = 4
)

// newCubin makes a Cubin of an ELF file.
func newCubin(code []byte) Cubin {
	cubin := Cubin{SM: CubinSM(code), elf: code}
	if cubin.SM == 0 {
		return cubin
	}
	flags := binary.LittleEndian.Uint32(code[48:])
	if code[8] < elfABIVersionV2 {
		cubin.Specific = cubin.SM >= firstSpecific && flags&elfSpecificV1 != 0
	} else {
		cubin.Specific = flags&elfSpecificV2 != 0 || compatible(code)[compatSpecific] == 1
	}
	return cubin
}

// OpenCubin opens machine code as an ELF file. Its header has the compiler's version where
// debug/elf expects version 1.
func OpenCubin(code []byte) (*elf.File, error) {
	if CubinSM(code) == 0 {
		return nil, refuse(0, ErrUnknownFormat, "no machine code of a GPU")
	}
	header := bytes.Clone(code[:elfHeaderBytes])
	binary.LittleEndian.PutUint32(header[elfVersionAt:], uint32(elf.EV_CURRENT))
	return elf.NewFile(&headed{header, code})
}

// headed is bytes with a replaced beginning.
type headed struct{ head, all []byte }

func (h *headed) ReadAt(p []byte, at int64) (n int, err error) {
	if n, err = bytes.NewReader(h.all).ReadAt(p, at); at >= 0 && at < int64(len(h.head)) {
		copy(p[:n], h.head[at:])
	}
	return n, err
}

// compatible reads the records that say what the code needs of its architecture. Records with a
// length field are skipped.
func compatible(code []byte) map[byte]byte {
	file, err := OpenCubin(code)
	if err != nil {
		return nil
	}
	section := file.Section(compatSection)
	if section == nil {
		return nil
	}
	data, err := section.Data()
	if err != nil {
		return nil
	}
	found := map[byte]byte{}
	for len(data) >= compatHeaderBytes {
		next := compatHeaderBytes
		if data[0] == compatSized {
			next += int(binary.LittleEndian.Uint16(data[2:]))
		} else {
			found[data[1]] = data[2]
		}
		data = data[min(next, len(data)):]
	}
	return found
}

// CubinSM returns the architecture in a cubin's header, 90 for sm_90; 0 if the bytes are not a
// cubin.
func CubinSM(data []byte) int {
	if len(data) < elfHeaderBytes || string(data[:4]) != "\x7fELF" ||
		binary.LittleEndian.Uint16(data[18:]) != elfMachineCUDA {
		return 0
	}
	flags := binary.LittleEndian.Uint32(data[48:])
	if data[8] >= elfABIVersionV2 {
		return int(flags >> 8 & 0xff)
	}
	return int(flags & 0xff)
}

// elfBytes returns the length of an ELF file by its header: the end of the section or program
// header table, whichever is later. Sections of a cubin come before its tables.
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
		bytes := uint64(
			binary.LittleEndian.Uint16(header[table.entryBytes:]),
		) * uint64(
			binary.LittleEndian.Uint16(header[table.entries:]),
		)
		if start > MaxImageBytes {
			return 0, refuse(uint64(table.offset), ErrTooLarge, "table at %d", start)
		}
		if bytes > 0 {
			end = max(end, start+bytes)
		}
	}
	return end, nil
}
