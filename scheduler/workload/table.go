package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// table is a file of comma-separated values whose columns are found by name.
type table struct {
	lines
	names  []string
	at     map[string]int
	values [][]byte
	words  map[string]string
}

// newTable reads the header, unless names are given.
func newTable(l lines, names []string) (*table, error) {
	t := &table{lines: l, names: names, at: map[string]int{}, words: map[string]string{}}
	if names == nil {
		head, err := t.nextFilled()
		if errors.Is(err, io.EOF) {
			return nil, &Error{File: l.file, Want: "a header and jobs; the file is empty"}
		}
		if err != nil {
			return nil, err
		}
		cut, ok := fields(nil, head)
		if !ok {
			return nil, t.badValue("", string(head), "names of columns, each quote closed")
		}
		for _, name := range cut {
			t.names = append(t.names, string(name))
		}
	}
	for i, name := range t.names {
		if _, twice := t.at[name]; twice {
			return nil, t.badValue("", name, "each column once")
		}
		t.at[name] = i
	}
	return t, nil
}

// has reports whether there is a column.
func (t *table) has(name string) bool { _, has := t.at[name]; return has }

// require returns an error if a column is missing.
func (t *table) require(names ...string) error {
	for _, name := range names {
		if !t.has(name) {
			return t.badValue("", strings.Join(t.names, ","), fmt.Sprintf("a column %s", name))
		}
	}
	return nil
}

// allowOnly returns an error for unknown columns: otherwise a misspelt one would be ignored
// silently.
func (t *table) allowOnly(names []string) error {
	for _, name := range t.names {
		if !slices.Contains(names, name) {
			return t.badValue("", name, "a column out of "+strings.Join(names, ", "))
		}
	}
	return nil
}

// columnAt returns the column in which the beginning of a line ends.
func (t *table) columnAt(begin []byte) string {
	values, closed := fields(nil, begin)
	at := len(values)
	if closed {
		at--
	}
	if at >= len(t.names) {
		return ""
	}
	return t.names[at]
}

// each calls read for each row.
func (t *table) each(read func() error) error {
	t.columnOf = t.columnAt
	return t.lines.each(func(line []byte) error {
		if err := t.row(line); err != nil {
			return err
		}
		return read()
	})
}

// row splits a line into the values of a row.
func (t *table) row(line []byte) error {
	var ok bool
	if t.values, ok = fields(t.values, line); !ok {
		return t.badValue("", string(line), "each quote closed in its line, and a comma behind it")
	}
	if len(t.values) != len(t.names) {
		return t.badValue(
			"",
			string(line),
			fmt.Sprintf("%d values, one for each column; there are %d", len(t.names), len(t.values)),
		)
	}
	return nil
}

// raw returns a value of the row; nil if the column is missing.
func (t *table) raw(column string) []byte {
	if i, has := t.at[column]; has {
		return t.values[i]
	}
	return nil
}

// word returns a value as a string. Equal strings share memory, since a million jobs have few
// users.
func (t *table) word(column string) string {
	raw := t.raw(column)
	if word, ok := t.words[string(raw)]; ok {
		return word
	}
	word := string(raw)
	if len(t.words) < 1<<16 {
		t.words[word] = word
	}
	return word
}

// seconds parses a value as a time.
func (t *table) seconds(column string) (time.Duration, error) {
	d, ok := seconds(t.raw(column))
	if !ok {
		return 0, t.badValue(column, string(t.raw(column)), wantSeconds)
	}
	return d, nil
}

// number parses a value as an integer within bounds.
func (t *table) number(column string, least, most int64, want string) (int64, error) {
	n, ok := whole(t.raw(column))
	if !ok || n < least || n > most {
		return 0, t.badValue(column, string(t.raw(column)), want)
	}
	return n, nil
}

// count parses a value as a number of GPUs, at least one.
func (t *table) count(column string) (int, error) {
	n, err := t.number(column, 1, maxGPUs, wantCount)
	return int(n), err
}

// clock parses a value as a time since 1970, as if it were UTC.
func (t *table) clock(column string) (time.Duration, error) {
	at, ok := clock(t.raw(column))
	if !ok {
		return 0, t.badValue(column, string(t.raw(column)), wantClock)
	}
	return at, nil
}

// absent reports whether a value is missing, in one of the usual spellings.
func (t *table) absent(column string) bool {
	raw := t.raw(column)
	return len(raw) == 0 || bytes.EqualFold(raw, []byte("nan")) || bytes.EqualFold(raw, []byte("none")) ||
		bytes.EqualFold(raw, []byte("null"))
}

// maxGPUs bounds the GPUs of a job. A larger number is a mistake in the file.
const maxGPUs = 1_000_000

// wantClock describes what clock parses.
const wantClock = "a time as 2006-01-02 15:04:05"

// clock parses a date with a time of day.
func clock(text []byte) (time.Duration, bool) {
	at, err := time.Parse(time.DateTime, string(text))
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return 0, false
	}
	return time.Duration(at.UnixNano()), true
}
