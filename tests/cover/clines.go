package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// counted is what gcov says of an object file.
type counted struct {
	Files []struct {
		File  string `json:"file"`
		Lines []struct {
			Line     int    `json:"line_number"`
			Count    uint64 `json:"count"`
			Part     bool   `json:"unexecuted_block"` // of it, at least, is not run
			Function string `json:"function_name"`
		} `json:"lines"`
	} `json:"files"`
}

// readLines reads what C has counted: what cgo/cudadrv has of it, in files of its own and in
// comments before import "C". Each program has its own counts: a line is run where one of them has
// run all of it.
func readLines(documents []byte, sources fs.FS) ([]place, error) {
	text, all := newText(sources), map[string]place{}
	for decoder := json.NewDecoder(bytes.NewReader(documents)); ; {
		var c counted
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("what gcov says: %w", err)
		}
		for _, f := range c.Files {
			file := sourceOf(f.File)
			if !ours(file) {
				continue
			}
			for _, l := range f.Lines {
				source, _, err := text.from(file, l.Line, 1)
				if err != nil {
					return nil, err
				}
				key := fmt.Sprintf("%s:%d", file, l.Line)
				p, known := all[key]
				if !known || l.Function < p.Function { // a function that is inlined stands in others
					p.Function = l.Function
				}
				all[key] = place{file, l.Line, p.Function, source, inC, "", p.run || l.Count > 0 && !l.Part}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), inOrder), nil
}

// sourceOf is the file of cgo/cudadrv by the name that the compiler had of it: below other folders,
// and of Go rewritten for counting, with all lines where they were. It is "" for what cgo adds.
func sourceOf(compiled string) string {
	name := strings.Replace(path.Base(compiled), ".cover.go", ".go", 1)
	if strings.HasPrefix(name, "_cgo_") || path.Ext(name) != ".c" && path.Ext(name) != ".h" && path.Ext(name) != ".go" {
		return ""
	}
	if strings.HasPrefix(compiled, "/usr/") {
		return "" // of the system's
	}
	return "cgo/cudadrv/" + name
}
