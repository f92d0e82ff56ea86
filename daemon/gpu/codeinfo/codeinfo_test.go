package codeinfo

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

const text = `
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 8 .b8 table[16] = {1, 2};
	.const .align 4 .f32 factor;
.global .attribute(.managed) .align 4 .u32 shared_word = 1;
.extern .global .align 4 .u32 elsewhere;
.global .align 1 .b8 text[] = {98, 0};
.visible .entry both(.param .u64 address, .param .align 16 .b8 box[24], .param .u8 last)
{
	.reg .b64 %a;
	mov.u64 %a, counter;
	ret;
}
.entry other()
{
	ret;
}
`

func TestNames(t *testing.T) {
	image := gpu.Image{PTX: []string{text}}
	if got := Variables(image); !slices.Equal(got, []string{"counter", "table", "factor", "shared_word", "text"}) {
		t.Errorf("variables: %q", got)
	}
	if got := Kernels(image); !slices.Equal(got, []string{"both", "other"}) {
		t.Errorf("kernels: %q", got)
	}
	if got := Managed(image); got != "shared_word" {
		t.Errorf("managed: %q", got)
	}
	if !Mentions(image, "elsewhere") || Mentions(image, "vprintf") {
		t.Error("mentions")
	}
}

func TestParamsOfText(t *testing.T) {
	got, err := Params(gpu.Image{PTX: []string{text}}, "both")
	want := []gpu.Param{{Offset: 0, Bytes: 8}, {Offset: 16, Bytes: 24}, {Offset: 40, Bytes: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Params(gpu.Image{PTX: []string{text}}, "absent"); err == nil {
		t.Error("found a kernel that is not there")
	}
	if _, err := Params(gpu.Image{Cubin: []byte("\x7fELF, or not")}, "both"); err == nil {
		t.Error("read what is no machine code")
	}
}

// record returns a record of a section .nv.info.
func record(kind byte, value ...uint32) []byte {
	out := []byte{infoSized, kind, byte(4 * len(value)), 0}
	for _, word := range value {
		out = binary.LittleEndian.AppendUint32(out, word)
	}
	return out
}

func TestParseInfo(t *testing.T) {
	data := slices.Concat(
		[]byte{3, 0x1b, 0xff, 0}, // maximum registers: the value is in the record header
		record(infoParam, 0, 16<<16|1, 4<<infoSizeShift|0x1f00),
		record(0x0a, 7, 0x160),
		record(infoLargeParam, 0, 0, 12),
	)
	got, err := parseInfo(data)
	if want := []gpu.Param{{Offset: 0, Bytes: 12}, {Offset: 16, Bytes: 4}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]byte{{infoSized, infoParam, 12, 0, 1}, record(infoParam, 1, 2)} {
		if _, err := parseInfo(bad); err == nil {
			t.Errorf("% x is accepted", bad)
		}
	}
}

func FuzzParams(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"), record(infoParam, 0, 0, 8<<infoSizeShift))
	f.Add([]byte(nil), record(infoLargeParam, 0, 8<<16, 8))
	f.Fuzz(func(_ *testing.T, cubin, info []byte) {
		_, _ = Params(gpu.Image{Cubin: cubin}, "k")
		_ = Variables(gpu.Image{Cubin: cubin})
		_ = Variables(gpu.Image{PTX: []string{string(info)}})
		_, _ = parseInfo(info)
	})
}
