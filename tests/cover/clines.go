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

// counted is gcov's report on an object file.
type counted struct {
	Files []struct {
		File  string `json:"file"`
		Lines []struct {
			Line     int    `json:"line_number"`
			Count    uint64 `json:"count"`
			Part     bool   `json:"unexecuted_block"` // a part of the line was not run
			Function string `json:"function_name"`
		} `json:"lines"`
	} `json:"files"`
}

// readLines reads the counts of C code in cgo/cudadrv: its files, and its comments before import
// "C". Each program has its own counts. A line counts as run if one program has run all of it.
func readLines(documents []byte, sources fs.FS) ([]place, error) {
	text, all := newText(sources), map[string]place{}
	for decoder := json.NewDecoder(bytes.NewReader(documents)); ; {
		var c counted
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("parse the output of gcov: %w", err)
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
				if !known || l.Function < p.Function { // an inlined function occurs in others too
					p.Function = l.Function
				}
				all[key] = place{file, l.Line, p.Function, source, inC, "", p.run || l.Count > 0 && !l.Part}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), inOrder), nil
}

// sourceOf returns the file of cgo/cudadrv for the name that the compiler was given. It may be
// below another folder, and a Go file rewritten for counting, with the same line numbers. It is ""
// for code that cgo adds.
func sourceOf(compiled string) string {
	name := strings.Replace(path.Base(compiled), ".cover.go", ".go", 1)
	if strings.HasPrefix(name, "_cgo_") || path.Ext(name) != ".c" && path.Ext(name) != ".h" && path.Ext(name) != ".go" {
		return ""
	}
	if strings.HasPrefix(compiled, "/usr/") {
		return "" // a system header
	}
	return "cgo/cudadrv/" + name
}
