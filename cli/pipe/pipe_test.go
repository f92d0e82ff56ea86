package pipe

import (
	"bytes"
	"io"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
)

// TestIn: input that does not begin with an image is refused.
func TestIn(t *testing.T) {
	frame := image.Frame{Magic: image.ManifestMagic, N: 100}.Encode()
	head := append(image.StreamHeader(), frame...)
	for name, text := range map[string][]byte{
		"nothing": nil, "text": bytes.Repeat([]byte("no image\n"), 100), "cut in the header": head[:10], "cut in the frame": head[:40],
		"no manifest": head, "made up": append(bytes.Clone(head), make([]byte, 100)...),
		"an end at once": append(image.StreamHeader(), image.Frame{Magic: image.EndMagic}.Encode()...),
	} {
		if manifest, file, err := In(bytes.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, manifest)
			_ = file.Close()
		}
	}
}

// TestInPassesAll: the pipe has every byte, also those that In has read.
func TestInPassesAll(t *testing.T) {
	signed, err := image.SealManifest(&image.Manifest{Version: image.Version, Generation: 1}, image.NewKey([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	stream := append(image.StreamHeader(), image.Frame{Magic: image.ManifestMagic, N: uint64(len(signed))}.Encode()...)
	stream = append(append(stream, signed...), bytes.Repeat([]byte("chunk"), 100_000)...)
	manifest, file, err := In(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := io.ReadAll(file)
	if err != nil || !bytes.Equal(got, stream) || manifest.Generation != 1 {
		t.Errorf("%d bytes of %d, generation %d, %v", len(got), len(stream), manifest.Generation, err)
	}
}
