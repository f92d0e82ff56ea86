package plot

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFonts: wherever the text is cut, the other fonts are added as strings.ReplaceAll does it.
func TestFonts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	parts := []string{svgFont, svgFont[:6], svgFont[:20], "font-f", "f", "x", ";", svgFont[6:], svgFont[1:]}
	for range 3000 {
		text := ""
		for range r.IntN(8) {
			text += parts[r.IntN(len(parts))]
		}
		want := strings.ReplaceAll(text, svgFont, strings.TrimSuffix(svgFont, ";")+otherFonts+";")
		var got bytes.Buffer
		w := &fontWriter{to: &got}
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); err != nil || wrote != n {
				t.Fatalf("%d of %d bytes are written: %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if got.String() != want {
			t.Fatalf("%q becomes %q, want %q", text, &got, want)
		}
	}
}
