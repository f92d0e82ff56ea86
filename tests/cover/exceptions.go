package main

import (
	"fmt"
	"strings"
)

// exception is a place that need not be run. Its source identifies it, because line numbers change.
type exception struct {
	file, function, source string
	reason                 string
	line                   int // in the file of exceptions
}

// parseExceptions reads exceptions: a line FILE FUNCTION: SOURCE, followed by indented lines with
// the reason. Each is for one place.
func parseExceptions(text string) ([]exception, error) {
	var all []exception
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case line[0] == '\t' && len(all) > 0:
			last := &all[len(all)-1]
			last.reason = strings.TrimSpace(last.reason + " " + trimmed)
		default:
			where, source, found := strings.Cut(trimmed, ": ")
			file, function, spaced := strings.Cut(where, " ")
			if !found || !spaced {
				return nil, fmt.Errorf("line %d: %q is not FILE FUNCTION: SOURCE", i+1, line)
			}
			all = append(all, exception{file: file, function: function, source: source, line: i + 1})
		}
	}
	for _, e := range all {
		if e.reason == "" {
			return nil, fmt.Errorf("line %d has no reason", e.line)
		}
	}
	return all, nil
}

func (e exception) matches(p place) bool {
	return e.file == p.File && e.function == p.Function && e.source == p.Source
}
