package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of a table, in bytes, so that a file without lines need not fit into
// memory.
const maxLine = 64 << 10

// lines reads a text line by line, without line ends, and counts the lines.
type lines struct {
	file string
	in   *bufio.Reader
	line int
	// columnOf returns in which column the beginning of a line ends; nil if there are none.
	columnOf func(begin []byte) string
}

// open makes a text readable: it uncompresses gzip and skips a byte order mark.
func open(file string, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", file, err)
		}
		in = bufio.NewReaderSize(unpacked, maxLine)
	}
	if start, _ := in.Peek(262); len(start) == 262 && string(start[257:]) == "ustar" {
		return nil, &Error{File: file, Want: "a file, not an archive of files; unpack it first"}
	}
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(3); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return in, nil
}

// next returns the next line, valid until the following call; io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	if len(text) > 0 {
		l.line++
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		column := ""
		if l.columnOf != nil {
			column = l.columnOf(text)
		}
		return nil, l.badValue(column, string(text), fmt.Sprintf("a line of at most %d bytes", maxLine))
	case errors.Is(err, io.EOF) && len(text) > 0:
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read %s, behind line %d: %w", l.file, l.line, err)
	case err != nil:
		return nil, io.EOF
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, l.badValue("", string(text), "text without zero bytes")
	}
	return text, nil
}

// nextFilled returns the next line that is not blank.
func (l *lines) nextFilled() ([]byte, error) {
	for {
		text, err := l.next()
		if err != nil || len(bytes.TrimSpace(text)) > 0 {
			return text, err
		}
	}
}

// each calls read for each line that is not blank.
func (l *lines) each(read func(line []byte) error) error {
	for {
		line, err := l.nextFilled()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = read(line)
		}
		if err != nil {
			return err
		}
	}
}

// badValue returns an error about the line that was read last.
func (l *lines) badValue(column, value, want string) error {
	return &Error{File: l.file, Line: l.line, Column: column, Value: shortened(value), Has: true, Want: want}
}

// missing returns an error about something that is not there.
func (l *lines) missing(column, want string) error {
	return &Error{File: l.file, Line: l.line, Column: column, Want: want}
}

// fields splits a line of comma-separated values into to. In a quoted value, quotes are doubled; ok
// is false if a quoted value does not end in the line.
func fields(to [][]byte, line []byte) (values [][]byte, ok bool) {
	to = to[:0]
	for {
		if len(line) > 0 && line[0] == '"' {
			value, rest, ok := unquote(line[1:])
			if !ok {
				return to, false
			}
			to = append(to, value)
			if rest == nil {
				return to, true
			}
			line = rest
			continue
		}
		comma := bytes.IndexByte(line, ',')
		if comma < 0 {
			return append(to, bytes.TrimSpace(line)), true
		}
		to = append(to, bytes.TrimSpace(line[:comma]))
		line = line[comma+1:]
	}
}

// unquote reads a value up to its closing quote. rest is what follows the comma, nil at the end of
// the line.
func unquote(line []byte) (value, rest []byte, ok bool) {
	for i := 0; i < len(line); i++ {
		if line[i] != '"' {
			value = append(value, line[i])
			continue
		}
		switch {
		case i+1 == len(line):
			return value, nil, true
		case line[i+1] == '"':
			value = append(value, '"')
			i++
		case line[i+1] == ',':
			return value, line[i+2:], true
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}
