// Command gen reads hijack/spec and writes what is generated from it: numbers, codecs and
// dispatch in Go, types, stubs and tables in C, and the coverage page. It writes nothing but files
// named zz_* and hijack/spec/COVERAGE.md.
//
// Read spec.go for the model, parse.go for the format; each c_*.go and go_*.go writes one kind of
// file.
package main

//go:generate go run .

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	files, err := generate(root)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := write(filepath.Join(root, f.path), f.content); err != nil {
			return err
		}
	}
	return nil
}

// file is one generated file, its path relative to the module's root.
type file struct {
	path    string
	content []byte
}

// output is a file and the function that writes it.
type output struct {
	path  string
	write func(s *spec) ([]byte, error)
}

// outputs lists what is generated, in the order it is written; dispatchers lists more.
var outputs = []output{
	{"hijack/abi/zz_calls.go", goCalls},
	{"hijack/abi/zz_result_names.go", goResultNames},
	{"hijack/wire/zz_codec.go", goCodec},
	{sessionDir + "/zz_topics.go", goTopics},
	{"hijack/shim/zz_layout.h", cLayout},
	{"hijack/shim/zz_abi.h", cTypes},
	{"hijack/shim/zz_calls.h", cCalls},
	{"hijack/shim/zz_stubs.c", cStubs},
	{"hijack/shim/zz_refuse.c", cRefuse},
	{"hijack/shim/zz_symbols.map", cSymbols},
	{"hijack/shim/zz_procs.h", cProcs},
	{"hijack/nvml/zz_refuse.c", nvmlRefuse},
	{"cgo/cudadrv/zz_calls.go", goDriver},
	{"cgo/cudadrv/zz_nocgo.go", goNoDriver},
	{"hijack/spec/COVERAGE.md", coverage},
}

// generate makes all files from the specification under root, in memory.
func generate(root string) ([]file, error) {
	s, err := load(filepath.Join(root, "hijack/spec"))
	if err != nil {
		return nil, err
	}
	if s.layout, err = loadLayout(root); err != nil {
		return nil, err
	}
	if s.nvml, err = loadNVML(root); err != nil {
		return nil, err
	}
	var files []file
	for _, o := range append(slices.Clone(outputs), dispatchers()...) {
		content, err := o.write(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.path, err)
		}
		files = append(files, file{o.path, content})
	}
	return files, nil
}

// write replaces a file only when it changed, so that builds which look at times stay idle.
func write(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return os.WriteFile(path, content, 0o644)
}

// moduleRoot finds go.mod upwards from the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}
