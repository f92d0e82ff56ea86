package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// measured are the packages whose code is counted.
var measured = []string{
	"daemon/gpu/cuda", "daemon/gpu/cuda/devicelist", "daemon/gpu/cuda/devprintf", "cgo/cudadrv",
}

// counting is a file that is only compiled in for counting.
const counting = "cgo/cudadrv/counted.go"

// language is the language of a place. A block of Go is statements that are run all or none; for C,
// gcov counts lines.
type language string

const (
	inGo language = "blocks"
	inC  language = "lines of C"
)

// place is a piece of code.
type place struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Function string   `json:"function"`
	Source   string   `json:"source"`
	Language language `json:"language"`
	// Reason is why no test runs it, if it is an exception.
	Reason string `json:"reason,omitempty"`

	run bool
}

func (p place) String() string {
	return fmt.Sprintf("%s:%d %s: %s", p.File, p.Line, p.Function, p.Source)
}

// ours reports whether a file is measured.
func ours(file string) bool { return file != counting && slices.Contains(measured, path.Dir(file)) }

// text is the content of the sources, by file and line.
type text struct {
	sources fs.FS
	files   map[string][]string
}

func newText(sources fs.FS) *text { return &text{sources, map[string][]string{}} }

// lines returns the lines of a file, which is read once.
func (t *text) lines(file string) ([]string, error) {
	if known := t.files[file]; known != nil {
		return known, nil
	}
	content, err := fs.ReadFile(t.sources, file)
	if err != nil {
		return nil, err
	}
	t.files[file] = strings.Split(string(content), "\n")
	return t.files[file], nil
}

// from returns the first non-empty line at or after a line and column, and its number. Columns
// begin with 1.
func (t *text) from(file string, line, column int) (string, int, error) {
	lines, err := t.lines(file)
	if err != nil {
		return "", 0, err
	}
	for at := line; at > 0 && at <= len(lines); at, column = at+1, 1 {
		if source := strings.TrimSpace(lines[at-1][min(column-1, len(lines[at-1])):]); source != "" && source != "{" {
			return source, at, nil
		}
	}
	return "", 0, fmt.Errorf("%s has no line %d: the file has changed since the counting", file, line)
}
