package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
)

func main() {
	var o options
	flag.StringVar(&o.blocks, "blocks", "", "what of Go was run, as go tool covdata textfmt writes it")
	flag.StringVar(
		&o.lines,
		"lines",
		"",
		"counts of C code: any number of outputs of gcov --json-format --stdout, concatenated",
	)
	flag.StringVar(&o.exceptions, "exceptions", "tests/cover/exceptions.txt", "what need not be run, and why")
	flag.StringVar(&o.json, "json", "", "write the report there, too")
	flag.Parse()
	left, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cover:", err)
	}
	if err != nil || left > 0 {
		os.Exit(1)
	}
}

type options struct {
	blocks, lines, exceptions, json string
}

// run prints the report and returns the number of places that are not run and not excepted. The
// working directory is the root of the repository.
func run(o options) (left int, err error) {
	sources := os.DirFS(".")
	blocks, err := read(o.blocks, sources, readBlocks)
	if err != nil {
		return 0, err
	}
	lines, err := read(o.lines, sources, readLines)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(o.exceptions)
	if err != nil {
		return 0, err
	}
	excepted, err := parseExceptions(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.exceptions, err)
	}
	r := newReport(append(blocks, lines...), excepted)
	r.print(os.Stdout, o.exceptions)
	if o.json != "" {
		content, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(o.json, append(content, '\n'), 0o644); err != nil {
			return 0, err
		}
	}
	return r.Left, nil
}

// read parses a file of counts. A file without any count of ours is an error.
func read(path string, sources fs.FS, parse func(text []byte, sources fs.FS) ([]place, error)) ([]place, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	places, err := parse(text, sources)
	if err == nil && len(places) == 0 {
		err = fmt.Errorf("it has no counts for %v", measured)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return places, nil
}
