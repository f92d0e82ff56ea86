package worker

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/phos-gpu/phos/hijack/wire"
)

// FuzzAbout decodes arbitrary bytes as the worker entry of an image.
func FuzzAbout(f *testing.F) {
	good, err := json.Marshal(
		about{Wire: wire.Version, CookieAddress: 1 << 40, Cookie: 7, CopyByShim: true, JobName: "night"},
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("night"), []byte("\xff"), 1))
	f.Add([]byte(`{"wire":-1}`))
	f.Add(bytes.Repeat([]byte("["), maxAbout+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := decodeAbout(data)
		if err != nil {
			return
		}
		if read.Wire != wire.Version || !utf8.ValidString(read.JobName) || len(data) > maxAbout {
			t.Errorf("decodeAbout(%q) = %+v, want an error", data, read)
		}
	})
}
