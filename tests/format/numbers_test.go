package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestNumbers compares the numbers in FORMAT.md with the code's constants, or with what the code
// writes if there is no constant.
func TestNumbers(t *testing.T) {
	tree := &image.Tree{
		Entries: []image.Entry{{Kind: image.Memory, Name: "abc", Bytes: 5, Chunks: []image.Chunk{{Bytes: 5}}}},
	}
	encoded := func(tree *image.Tree) int {
		raw, err := tree.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return len(raw)
	}
	empty, whole := encoded(&image.Tree{}), encoded(tree)
	tree.Entries[0].Chunks, tree.Entries[0].Bytes = nil, 0
	bare := encoded(tree)
	long := &image.Tree{Entries: []image.Entry{{Kind: image.File, Name: strings.Repeat("n", image.MaxNameBytes+1)}}}
	if _, err := long.Encode(); err == nil {
		t.Error("a name longer than the limit was accepted")
	}
	m := &image.Manifest{Version: image.Version}
	signed, err := image.SealManifest(m, image.NewKey([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := image.ManifestText(signed)
	if err != nil {
		t.Fatal(err)
	}
	head := bytes.Index(signed, text)
	padFrom := 0
	for image.PadFor(64, padFrom) == 0 {
		padFrom++
	}
	want := map[string]int{
		"version": image.Version, "chunk": image.ChunkBytes, "marker": len(image.Marker{}.Encode()),
		"head of a generation": head,
		"longest manifest":     image.MaxManifestBytes, "seal": len(signed) - head - len(text),
		"least bytes of an object in a manifest": leastObject(t),
		"header of a pack":                       len(image.PackHeader{}.Encode()), "header of a run": len(image.EncodeRun(image.ID{}, 0)),
		"header of a record": len(
			image.Record{}.Encode(),
		), "padding from stored bytes": padFrom, "padding up to": image.PageBytes,
		"sum before a zstd frame": image.SumBytes, "entry of the index": len(image.AppendPlace(nil, image.Place{})),
		"trailer": len(
			image.Trailer{}.Head(),
		) + 32, "head of a tree": empty, "head of an entry": bare - empty - 3, "chunk of an entry": whole - bare,
		"longest name": image.MaxNameBytes, "longest tree": image.MaxTreeBytes,
		"head of a list": len((&image.List{}).Encode()), "header of a stream": len(image.StreamHeader()),
		"frame of a stream": len(image.Frame{Magic: image.EndMagic}.Encode()),
	}
	got := numbers(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != fmt.Sprint(want[name]) {
			t.Errorf("%s: FORMAT.md has %q, the code %d", name, got[name], want[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is in FORMAT.md, but the test does not check it", name)
	}
}

// leastObject finds by trial how many bytes a manifest must have for each object.
func leastObject(t *testing.T) int {
	t.Helper()
	const objects = 10_000
	signed, err := image.SealManifest(&image.Manifest{Version: image.Version}, image.NewKey([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	text := `{"version":1,"processes":[` + strings.Repeat("{},", objects-2) + "{}]}"
	for least := 4; least < 100; least++ {
		if _, _, err := image.Inspect(replaceManifest(
			signed, text+strings.Repeat(" ", max(0, least*objects-4096-len(text))),
		)); err == nil {
			return least
		}
	}
	return -1
}

// replaceManifest puts another manifest under a seal, with a correct checksum and a wrong tag.
func replaceManifest(signed []byte, text string) []byte {
	out := binary.LittleEndian.AppendUint32(bytes.Clone(signed[:12]), uint32(len(text)))
	out = append(append(out, text...), signed[len(signed)-96:len(signed)-32]...)
	return append(out, b3(32, out)...)
}

// TestMagics: FORMAT.md has the magic numbers of all parts of an image.
func TestMagics(t *testing.T) {
	page, err := os.ReadFile(harness.Path("FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := (&image.Tree{}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := image.SealManifest(&image.Manifest{Version: image.Version}, image.NewKey([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, magic := range []string{
		string(signed[:8]), string(signed[len(signed)-96:][:8]), string(image.PackHeader{}.Encode()[:8]),
		string(image.EncodeRun(image.ID{}, 0)[:8]),
		image.RecordMagic, string(image.Trailer{}.Head()[:8]), string(tree[:8]), string((&image.List{}).Encode()[:8]),
		string(image.StreamHeader()[:8]), image.ManifestMagic, image.EndMagic,
	} {
		if quoted := "`" + strings.ReplaceAll(magic, "\n", `\n`) + "`"; !strings.Contains(string(page), quoted) {
			t.Errorf("FORMAT.md lacks %s", quoted)
		}
	}
}
