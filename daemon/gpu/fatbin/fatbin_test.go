package fatbin

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

func ptxFor(target string) string {
	return ".version 8.4\n.target " + target + "\n.address_size 64\n" + strings.Repeat(
		"// the same line again and again\n",
		40,
	)
}

// cubinFor returns the smallest ELF file that is accepted as machine code.
func cubinFor(sm int, abiVersion byte) []byte {
	elf := make([]byte, 128)
	copy(elf, "\x7fELF\x02\x01\x01\x33")
	elf[8] = abiVersion
	binary.LittleEndian.PutUint16(elf[18:], elfMachineCUDA)
	binary.LittleEndian.PutUint64(elf[40:], 64)
	flags := uint32(sm)
	if abiVersion >= elfABIVersionV2 {
		flags = uint32(sm) << 8
	}
	binary.LittleEndian.PutUint32(elf[48:], flags)
	binary.LittleEndian.PutUint16(elf[58:], 64)
	binary.LittleEndian.PutUint16(elf[60:], 1)
	return elf
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	for name, compression := range map[string]Compression{"plain": Plain, "lz4": LZ4, "zstd": Zstd} {
		t.Run(name, func(t *testing.T) {
			var b Builder
			must(t, b.PTX(75, ptxFor("sm_75"), compression))
			must(t, b.Cubin(80, cubinFor(80, 7), compression))
			must(t, b.entry(9, 80, []byte("intermediate code of some other compiler"), Plain))
			images, err := Parse(append(b.Bytes(), "bytes of the next fat binary"...))
			must(t, err)
			if len(images.Texts) != 1 || images.Texts[0].PTX != ptxFor("sm_75") || images.Texts[0].SM != 75 {
				t.Errorf("texts: %+v", images.Texts)
			}
			if len(images.Cubins) != 1 || images.Cubins[0].SM != 80 {
				t.Fatalf("cubins: %+v", images.Cubins)
			}
			if code, err := images.Cubins[0].Code(); err != nil || string(code) != string(cubinFor(80, 7)) {
				t.Errorf("got %d bytes of machine code, %v", len(code), err)
			}
		})
	}
}

// TestLZ4Vector unpacks a block written by hand from the format's description: two literals, then a
// match that overlaps itself.
func TestLZ4Vector(t *testing.T) {
	packed, _ := hex.DecodeString("24" + "6162" + "0200" + "50" + "766c617374") // "ab", 8 bytes from 2 back, "vlast"
	e := entry{flags: flagLZ4, packed: packed, unpacked: 15}
	out, err := e.unpack()
	must(t, err)
	if string(out) != "ababababab"+"vlast" {
		t.Errorf("got %q", out)
	}
}

func TestBest(t *testing.T) {
	build := func(add func(b *Builder)) *Images {
		var b Builder
		add(&b)
		images, err := Parse(b.Bytes())
		must(t, err)
		return images
	}
	many := build(func(b *Builder) {
		for _, target := range []string{"sm_90a", "sm_52", "sm_90", "sm_100", "sm_80"} {
			sm := map[string]int{"sm_90a": 90, "sm_52": 52, "sm_90": 90, "sm_100": 100, "sm_80": 80}[target]
			must(t, b.PTX(sm, ptxFor(target), LZ4))
		}
		must(t, b.Cubin(89, cubinFor(89, 7), Plain))
	})
	for cc, target := range map[int]string{90: "sm_90\n", 89: "sm_80", 80: "sm_80", 75: "sm_52", 120: "sm_100"} {
		image, err := many.Best(cc)
		must(t, err)
		if len(image.PTX) != 1 || !strings.Contains(image.PTX[0], target) {
			t.Errorf("cc %d: %.60q, want %s", cc, image.PTX, target)
		}
	}
	machine := build(func(b *Builder) {
		for _, sm := range []int{70, 80, 86, 90} {
			must(t, b.Cubin(sm, cubinFor(sm, 7), Plain))
		}
	})
	for cc, sm := range map[int]int{90: 90, 89: 86, 80: 80, 75: 70} {
		image, err := machine.Best(cc)
		must(t, err)
		if image.PTX != nil || CubinSM(image.Cubin) != sm {
			t.Errorf("cc %d: machine code for sm_%d, want sm_%d", cc, CubinSM(image.Cubin), sm)
		}
	}
	newer := build(func(b *Builder) { must(t, b.PTX(100, ptxFor("sm_100"), Plain)) })
	if _, err := newer.Best(90); !errors.Is(err, abi.NoBinaryForGPU) || !strings.Contains(err.Error(), "sm_100") {
		t.Errorf("only newer code: %v", err)
	}
	later := build(func(b *Builder) {
		for _, sm := range []int{120, 100} {
			must(t, b.PTX(sm, ptxFor(fmt.Sprintf("sm_%d", sm)), LZ4))
		}
		must(t, b.Cubin(86, cubinFor(86, 7), Plain))
		must(t, b.Cubin(90, cubinFor(90, 7), Plain))
	})
	for cc, want := range map[int]string{90: "sm_100", 89: "sm_100", 80: "", 110: "sm_100", 130: "sm_120"} {
		image, err := later.Best(cc)
		must(t, err)
		if got := strings.Join(image.PTX, ""); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("cc %d beside later code: %.60q, want %q", cc, got, want)
		}
		if (image.Cubin != nil) != (cc < 100) {
			t.Errorf("cc %d: %d bytes of machine code", cc, len(image.Cubin))
		}
	}
}

func TestOtherForms(t *testing.T) {
	images, err := Parse([]byte("// by hand\n" + ptxFor("sm_90a") + "\x00junk"))
	must(t, err)
	if text := images.Texts[0]; text.SM != 90 || !text.Specific || strings.Contains(text.PTX, "junk") {
		t.Errorf("bare text: %+v", text)
	}
	for _, version := range []byte{7, 8} {
		images, err = Parse(append(cubinFor(90, version), "tail"...))
		must(t, err)
		if cubin := images.Cubins[0]; cubin.SM != 90 || len(cubin.elf) != 128 {
			t.Errorf("cubin: sm %d, %d bytes", cubin.SM, len(cubin.elf))
		}
	}
	texts := []string{"", "one", ptxFor("sm_80")}
	images, err = Parse(Link(texts))
	must(t, err)
	image, err := images.Best(90)
	must(t, err)
	if strings.Join(image.PTX, "|") != strings.Join(texts, "|") {
		t.Errorf("linked: %q", image.PTX)
	}
}

func TestRefused(t *testing.T) {
	good := func(compression Compression) []byte {
		var b Builder
		must(t, b.PTX(75, ptxFor("sm_75"), compression))
		return b.Bytes()
	}
	changed := func(data []byte, change func(b []byte)) []byte {
		change(data)
		return data
	}
	put64 := func(at int, value uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], value) }
	}
	const first = binHeaderBytes
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty":             {nil, ErrUnknownFormat},
		"noise":             {[]byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ErrUnknownFormat},
		"header only":       {good(Plain)[:12], ErrTruncated},
		"cut":               {good(Plain)[:200], ErrTruncated},
		"version":           {changed(good(Plain), func(b []byte) { b[4] = 2 }), ErrVersion},
		"huge body":         {changed(good(Plain), put64(8, 1<<62)), ErrTooLarge},
		"body overflow":     {changed(good(Plain), put64(8, ^uint64(0))), ErrTooLarge},
		"payload":           {changed(good(Plain), put64(first+8, ^uint64(0)-70)), ErrTruncated},
		"entry header":      {changed(good(Plain), func(b []byte) { b[first+4] = 8 }), ErrTruncated},
		"packed size":       {changed(good(LZ4), func(b []byte) { b[first+19] = 0xff }), ErrTruncated},
		"unpacked too big":  {changed(good(LZ4), put64(first+56, 1<<40)), ErrTooLarge},
		"incredible lz4":    {changed(good(LZ4), put64(first+56, 200<<20)), ErrCompression},
		"incredible zstd":   {changed(good(Zstd), put64(first+56, 200<<20)), ErrCompression},
		"wrong size lz4":    {changed(good(LZ4), put64(first+56, 20)), ErrCompression},
		"wrong size zstd":   {changed(good(Zstd), put64(first+56, 20)), ErrCompression},
		"damaged zstd":      {changed(good(Zstd), func(b []byte) { b[first+72] ^= 0xff }), ErrCompression},
		"elf of a computer": {changed(cubinFor(90, 7), func(b []byte) { b[18] = 62 }), ErrUnknownFormat},
		"elf cut":           {cubinFor(90, 7)[:100], ErrTruncated},
		"elf 32 bits":       {changed(cubinFor(90, 7), func(b []byte) { b[4] = 1 }), ErrUnknownFormat},
		"elf table":         {changed(cubinFor(90, 7), put64(40, 1<<60)), ErrTooLarge},
		"link version":      {changed(Link([]string{"a"}), func(b []byte) { b[8] = 9 }), ErrVersion},
		"link count":        {changed(Link([]string{"a"}), func(b []byte) { b[12] = 2 }), ErrTruncated},
		"link length":       {changed(Link([]string{"a"}), put64(16, ^uint64(0)-3)), ErrTruncated},
	} {
		_, err := Parse(c.data)
		if !errors.Is(err, c.want) || !errors.Is(err, abi.InvalidImage) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// fatbins packs the parts of a separately compiled program.
func fatbins(binaries ...[]byte) []byte {
	texts := make([]string, len(binaries))
	for i, each := range binaries {
		texts[i] = string(each)
	}
	out := Link(texts)
	binary.LittleEndian.PutUint32(out[8:], linkFatbins)
	return out
}

// TestParts parses a separately compiled program: linked machine code, and the PTX that it was
// linked from.
func TestParts(t *testing.T) {
	var cubin, first, second, newer Builder
	must(t, cubin.Cubin(75, cubinFor(75, 7), Plain))
	must(t, first.PTX(70, ptxFor("sm_70"), LZ4))
	must(t, first.PTX(80, ptxFor("sm_80"), LZ4))
	must(t, second.PTX(75, ptxFor("sm_75"), Zstd))
	must(t, newer.PTX(120, ptxFor("sm_120"), Plain))
	for name, c := range map[string]struct {
		data  []byte
		texts []string
	}{
		"linked code and parts": {
			fatbins(cubin.Bytes(), first.Bytes(), second.Bytes()),
			[]string{ptxFor("sm_80"), ptxFor("sm_75")},
		},
		"parts alone":         {fatbins(nil, second.Bytes()), []string{ptxFor("sm_75")}},
		"linked text":         {fatbins(second.Bytes(), first.Bytes()), []string{ptxFor("sm_75")}},
		"a part without code": {fatbins(cubin.Bytes(), first.Bytes(), newer.Bytes()), nil},
		"no parts":            {fatbins(cubin.Bytes()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			images, err := Parse(c.data)
			must(t, err)
			image, err := images.Best(90)
			must(t, err)
			if !slices.Equal(image.PTX, c.texts) || (image.Cubin == nil) != (c.texts != nil) {
				t.Errorf(
					"got %d texts and %d bytes of machine code, want %d texts",
					len(image.PTX),
					len(image.Cubin),
					len(c.texts),
				)
			}
		})
	}
	for _, damaged := range [][]byte{fatbins([]byte("no fat binary")), fatbins(first.Bytes())[:60]} {
		if _, err := Parse(damaged); err == nil {
			t.Error("a damaged container is accepted")
		}
	}
}

// TestManyArchitectures parses a fat binary whose machine code would unpack to more than the limit,
// as NCCL's does. Only the chosen code is unpacked.
func TestManyArchitectures(t *testing.T) {
	big := make([]byte, 200<<20)
	copy(big, cubinFor(90, 8))
	var b Builder
	must(t, b.Cubin(90, big, Zstd))
	one := b.body
	for _, sm := range []uint32{50, 60, 70, 75, 80, 86} {
		binary.LittleEndian.PutUint32(one[28:], sm)
		b.body = append(b.body, one...)
	}
	binary.LittleEndian.PutUint32(b.body[28:], 90)
	for name, data := range map[string][]byte{"fat binary": b.Bytes(), "parts": fatbins(b.Bytes(), b.Bytes())} {
		images, err := Parse(data)
		must(t, err)
		image, err := images.Best(90)
		if err != nil || !bytes.Equal(image.Cubin, big) {
			t.Errorf("%s: got %d bytes of machine code, %v", name, len(image.Cubin), err)
		}
	}
}

// TestDamagedCode chooses machine code that cannot be unpacked.
func TestDamagedCode(t *testing.T) {
	var b Builder
	must(t, b.Cubin(90, cubinFor(90, 8), Zstd))
	data := b.Bytes()
	data[binHeaderBytes+72] ^= 0xff
	images, err := Parse(data)
	must(t, err)
	if _, err = images.Best(90); !errors.Is(err, ErrCompression) || !errors.Is(err, abi.InvalidImage) {
		t.Errorf("got %v, want %v", err, ErrCompression)
	}
}

func FuzzParse(f *testing.F) {
	for _, compression := range []Compression{Plain, LZ4, Zstd} {
		var b Builder
		must(f, b.PTX(75, ptxFor("sm_75"), compression))
		must(f, b.Cubin(90, cubinFor(90, 8), compression))
		f.Add(b.Bytes())
	}
	f.Add(cubinFor(90, 7))
	f.Add(Link([]string{"one", "two"}))
	f.Add([]byte(ptxFor("sm_90a")))
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := Parse(data)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, cc := range []int{0, 75, 90} {
			image, err := images.Best(cc)
			if refused := (*Error)(nil); errors.As(err, &refused) {
				continue // the chosen machine code is damaged
			}
			if err == nil && len(image.PTX)+len(image.Cubin) == 0 {
				t.Fatalf("image with neither: %+v", image)
			}
			if parts := len(images.Linked) + len(images.Parts); parts == 0 &&
				Runs(images.Targets(), cc, true) != (len(image.PTX) > 0) {
				t.Fatalf("targets %v and image %+v for %d", images.Targets(), image, cc)
			}
		}
	})
}
