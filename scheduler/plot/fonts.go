package plot

import "io"

// The font of an SVG, and those that viewers without it use.
const (
	svgFont    = "font-family:Liberation Sans;"
	otherFonts = ",Arial,Helvetica,sans-serif"
)

// fontWriter adds the other fonts to an SVG that passes through, wherever it is cut into pieces.
type fontWriter struct {
	to      io.Writer
	matched int // how many bytes of svgFont have just passed
}

func (f *fontWriter) Write(svg []byte) (n int, err error) {
	from := 0
	for i, c := range svg {
		if !f.ends(c) {
			continue
		}
		if _, err := f.to.Write(svg[from:i]); err != nil {
			return from, err
		}
		if _, err := io.WriteString(f.to, otherFonts); err != nil {
			return from, err
		}
		from = i
	}
	n, err = f.to.Write(svg[from:])
	return from + n, err
}

// ends reports whether a byte is the last one of svgFont.
func (f *fontWriter) ends(c byte) bool {
	if svgFont[f.matched] != c && f.matched == len("font-f") {
		f.matched = len("f") // the only end of a beginning that is itself a beginning
	}
	if svgFont[f.matched] != c {
		f.matched = 0
	}
	if svgFont[f.matched] == c {
		f.matched++
	}
	if f.matched < len(svgFont) {
		return false
	}
	f.matched = 0
	return true
}
