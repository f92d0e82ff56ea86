package imagecmd

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/zeebo/blake3"
)

// FuzzManifest puts any text under the seal of an image and runs each command on it: a command
// prints a result or returns an error, and never prints control characters.
func FuzzManifest(f *testing.F) {
	sealed, err := os.ReadFile(filepath.Join(goldenImage, "generations", "000002"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed[16 : len(sealed)-96])
	f.Add(
		[]byte(
			`{"version":1,"generation":2,"owner":{"uid":1000,"name":"\u001b[2J"},"processes":[{"pid":-1,"gpu":{}}],"files":[{"path":"\u0007"}]}`,
		),
	)
	f.Add(
		[]byte(
			`{"version":1,"generation":2,"owner":{"uid":1000},"kinds":["\u009b"],"cpu":{"tree":"00"},"endpoints":[{"standard":7}]}`,
		),
	)
	path := filepath.Join(f.TempDir(), "image")
	if err := os.CopyFS(path, os.DirFS(goldenImage)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, manifest []byte) {
		out := binary.LittleEndian.AppendUint32(bytes.Clone(sealed[:12]), uint32(len(manifest)))
		out = append(append(out, manifest...), sealed[len(sealed)-96:len(sealed)-32]...)
		sum := blake3.Sum256(out)
		if err := os.WriteFile(filepath.Join(path, "generations", "000002"), append(out, sum[:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []func(Output) error{
			func(out Output) error { return List(out, path) },
			func(out Output) error { return Show(out, path, 2) },
			func(out Output) error { return Verify(t.Context(), out, path) },
			func(out Output) error { return Diff(t.Context(), out, path, DiffOptions{}) },
			func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Keep: 1, DryRun: true}) },
		} {
			_, _ = output(command, true)
			text, _ := output(command, false)
			for _, r := range text {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("%q has control characters", text)
					break
				}
			}
		}
	})
}
