package plot

import (
	"encoding/json"
	"io"
)

// jsonWriter writes JSON piece by piece, as json.Marshal would: a page has tens of megabytes, which
// need not be in memory at once.
type jsonWriter struct {
	out  io.Writer
	line []byte
	err  error // the first one; nothing is written after it
}

// raw writes text that is JSON.
func (w *jsonWriter) raw(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.out, text)
	}
}

// value writes a small value.
func (w *jsonWriter) value(value any) {
	text, err := json.Marshal(value)
	if w.err == nil {
		w.err = err
	}
	w.raw(string(text))
}

// field writes the beginning of an object's field.
func (w *jsonWriter) field(before, name string) { w.raw(before + `"` + name + `":`) }

// array writes an array of the elements for which each calls element.
func (w *jsonWriter) array(each func(element func(put func(to []byte) []byte))) {
	w.line = append(w.line[:0], '[')
	first := true
	each(func(put func(to []byte) []byte) {
		if !first {
			w.line = append(w.line, ',')
		}
		first = false
		if w.line = put(w.line); len(w.line) > 1<<15 {
			w.flush()
		}
	})
	w.line = append(w.line, ']')
	w.flush()
}

// flush writes what array has collected.
func (w *jsonWriter) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(w.line)
	}
	w.line = w.line[:0]
}
