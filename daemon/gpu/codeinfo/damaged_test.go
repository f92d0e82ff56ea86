package codeinfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// machineCode returns a cubin with only the section that describes kernel k. The section header
// says size bytes; some may be missing.
func machineCode(t *testing.T, info []byte, said uint64) []byte {
	t.Helper()
	names := "\x00.nv.info.k\x00.shstrtab\x00"
	const head, entry = 64, 64
	at := uint64(head + 3*entry)
	var out bytes.Buffer
	parts := []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{
				0x7f,
				'E',
				'L',
				'F',
				byte(elf.ELFCLASS64),
				byte(elf.ELFDATA2LSB),
				byte(elf.EV_CURRENT),
				0x33,
				7,
			},
			Type: uint16(elf.ET_EXEC), Machine: 190, Version: uint32(elf.EV_CURRENT), Flags: 90 | 90<<16,
			Shoff: head, Ehsize: head, Shentsize: entry, Shnum: 3, Shstrndx: 2,
		},
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: at + uint64(len(names)), Size: said},
		elf.Section64{
			Name: uint32(strings.Index(names, ".shstrtab")),
			Type: uint32(elf.SHT_STRTAB),
			Off:  at,
			Size: uint64(len(names)),
		},
		[]byte(names), info,
	}
	for _, part := range parts {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestDamagedCode checks the error for kernels whose parameters neither the driver nor the code
// reports.
func TestDamagedCode(t *testing.T) {
	good := record(infoParam, 0, 8<<16, 8<<infoSizeShift)
	for name, test := range map[string]struct {
		image  gpu.Image
		kernel string
		says   string // empty: no error
	}{
		"whole":           {gpu.Image{Cubin: machineCode(t, good, uint64(len(good)))}, "k", ""},
		"no machine code": {gpu.Image{Cubin: []byte("none")}, "k", "no machine code"},
		"another kernel":  {gpu.Image{Cubin: machineCode(t, good, uint64(len(good)))}, "other", "does not describe it"},
		"cut off":         {gpu.Image{Cubin: machineCode(t, good, 1<<20)}, "k", "EOF"},
		"no records":      {gpu.Image{Cubin: machineCode(t, good[:9], 9)}, "k", "record of 12 bytes in section rest of 5"},
		"no PTX":          {gpu.Image{PTX: []string{"}{", text}}, "absent", "cannot parse its PTX"},
		"PTX beside":      {gpu.Image{PTX: []string{"}{", text}}, "both", ""},
	} {
		params, err := Params(test.image, test.kernel)
		switch {
		case test.says == "" && (err != nil || len(params) == 0):
			t.Errorf("%s: %v, %v", name, params, err)
		case test.says != "" && (!errors.Is(err, abi.NotSupported) || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: it says %v, want %q", name, err, test.says)
		}
	}
	// The file has no symbol table.
	if names := Kernels(gpu.Image{Cubin: machineCode(t, good, uint64(len(good)))}); len(names) != 0 {
		t.Errorf("kernels %q in code that names none", names)
	}
}
