package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// measured are the packages that are.
var measured = []string{
	"daemon/gpu/cuda", "daemon/gpu/cuda/devicelist", "daemon/gpu/cuda/devprintf", "cgo/cudadrv",
}

// counting is the file that does the counting, which is in no program otherwise.
const counting = "cgo/cudadrv/counted.go"

// language is what a place is written in. A block of Go is statements that are run all or none; of
// C, gcov knows lines.
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
	// Reason is why no test runs it, where that is an exception.
	Reason string `json:"reason,omitempty"`

	run bool
}

func (p place) String() string {
	return fmt.Sprintf("%s:%d %s: %s", p.File, p.Line, p.Function, p.Source)
}

// ours reports whether a file is to be measured.
func ours(file string) bool { return file != counting && slices.Contains(measured, path.Dir(file)) }

// text is the sources, by file and line.
type text struct {
	sources fs.FS
	files   map[string][]string
}

func newText(sources fs.FS) *text { return &text{sources, map[string][]string{}} }

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

// from is the first line with something in it at a line and column or after, and its number.
// Columns begin with 1.
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
	return "", 0, fmt.Errorf("%s has no line %d: it is another file than was counted", file, line)
}
