package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Stream is what a process has written to.
type Stream byte

// The streams of a process.
const (
	Out Stream = iota
	Err
)

func (s Stream) String() string {
	if s == Err {
		return "err"
	}
	return "out"
}

// Position is a place between two records of a log. The zero Position is the beginning.
type Position struct {
	// Offset counts bytes, Line records.
	Offset int64 `json:"offset"`
	Line   int64 `json:"line"`
}

// Entry is one record.
type Entry struct {
	Time    time.Time
	Process int
	Stream  Stream
	// Text is the line without its end. It is valid until the next Entry is read.
	Text []byte
	// Partial means that no line ends here: the next Entry of the same process and stream goes on.
	Partial bool
	// Lost is set if this is no line, but says that some are missing.
	Lost *Lost
	// Next is the Position after it.
	Next Position
}

// Lost says that lines are missing in a log.
type Lost struct {
	Lines int64
	// Bytes is what they took in the log.
	Bytes int64
	// Reason says why.
	Reason string
}

// Reasons for lines that are missing. Others are errors of the file system.
const (
	// Rotated lines were dropped because the log had reached its limit.
	Rotated = "the log has reached its limit"
	// Damaged records are no records of a log.
	Damaged = "the log is damaged"
)

// ErrVersion is returned for a log of another version.
var ErrVersion = errors.New("log of another version; read it with a newer phos")

// kinds of records, beside those of streams.
const (
	kindLost = "lost"
	kindEnd  = "end"
)

// headerStart begins a segment, with the version.
const headerStart = "phos log 1 "

// anyHeader begins segments of all versions.
const anyHeader = "phos log "

// appendHeader appends the first line of a segment, before which the log has some lines.
func appendHeader(to []byte, lines int64) []byte {
	return append(strconv.AppendInt(append(to, headerStart...), lines, 10), '\n')
}

// parseHeader returns the number of lines that a header has. ok is false if it is none.
func parseHeader(line []byte) (lines int64, ok bool, err error) {
	if count, found := bytes.CutPrefix(line, []byte(headerStart)); found {
		lines, err := strconv.ParseInt(string(count), 10, 64)
		return lines, err == nil && lines >= 0, nil
	}
	if bytes.HasPrefix(line, []byte(anyHeader)) {
		return 0, false, fmt.Errorf("%w: %.20q", ErrVersion, line)
	}
	return 0, false, nil
}

// appendText appends the record of a line, or of a part of it.
func appendText(to []byte, e *Entry) []byte {
	mark := " . "
	if e.Partial {
		mark = " + "
	}
	to = strconv.AppendInt(to, e.Time.UnixNano(), 10)
	to = strconv.AppendInt(append(to, ' '), int64(e.Process), 10)
	to = append(append(append(to, ' '), e.Stream.String()...), mark...)
	return append(append(to, e.Text...), '\n')
}

// appendLost appends a record of lines that are missing.
func appendLost(to []byte, at time.Time, l Lost) []byte {
	return fmt.Appendf(to, "%d - %s . %d %d %s\n", at.UnixNano(), kindLost, l.Lines, l.Bytes, oneLine(l.Reason))
}

// appendEnd appends the last record of a log.
func appendEnd(to []byte, at time.Time) []byte {
	return fmt.Appendf(to, "%d - %s . \n", at.UnixNano(), kindEnd)
}

// oneLine makes a text fit into one record.
func oneLine(text string) string {
	line, _, _ := bytes.Cut([]byte(text), []byte("\n"))
	return string(line)
}

// parseRecord parses one line of a segment. end is set for the last record of a log. ok is false
// for what is none.
func parseRecord(line []byte) (e Entry, end, ok bool) {
	at, rest, found := cutNumber(line)
	process, rest, found2 := bytes.Cut(rest, []byte(" "))
	stream, rest, found3 := bytes.Cut(rest, []byte(" "))
	mark, text, found4 := bytes.Cut(rest, []byte(" "))
	if !found || !found2 || !found3 || !found4 {
		return Entry{}, false, false
	}
	e.Time = time.Unix(0, at)
	switch string(stream) {
	case kindEnd:
		return e, true, string(process) == "-"
	case kindLost:
		e, ok = parseLost(e, text)
		return e, false, ok
	}
	e, ok = parseText(e, process, stream, mark, text)
	return e, false, ok
}

// parseText parses what is special to a record with text.
func parseText(e Entry, process, stream, mark, text []byte) (Entry, bool) {
	number, err := strconv.ParseUint(string(process), 10, 16)
	if err != nil {
		return Entry{}, false
	}
	e.Process, e.Text, e.Partial = int(number), text, string(mark) == "+"
	switch {
	case string(stream) == "err":
		e.Stream = Err
	case string(stream) != "out":
		return Entry{}, false
	}
	return e, e.Partial || string(mark) == "."
}

// parseLost parses what is special to a record of lines that are missing.
func parseLost(e Entry, text []byte) (Entry, bool) {
	lines, rest, ok := cutNumber(text)
	bytes, reason, ok2 := cutNumber(rest)
	if !ok || !ok2 || lines < 0 || bytes < 0 {
		return Entry{}, false
	}
	e.Lost = &Lost{Lines: lines, Bytes: bytes, Reason: string(reason)}
	return e, true
}

// cutNumber cuts a decimal number and a space off a text.
func cutNumber(text []byte) (number int64, rest []byte, ok bool) {
	digits, rest, found := bytes.Cut(text, []byte(" "))
	if !found || len(digits) > len("-9223372036854775808") {
		return 0, nil, false
	}
	number, err := strconv.ParseInt(string(digits), 10, 64)
	return number, rest, err == nil
}
