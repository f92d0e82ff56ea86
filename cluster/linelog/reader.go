package linelog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Reader reads a log, also while it is written.
type Reader struct {
	dir string
	at  Position
	// file is a segment that begins at base; nil before the first and between two.
	file *os.File
	base int64
	// lines has the bytes of file. torn is what of a record is there so far, after skipped bytes of
	// what is longer than any record.
	lines   *bufio.Reader
	torn    []byte
	skipped int64
	ended   bool
}

// maxRecord is longer than any record. A damaged file may have longer lines.
const maxRecord = mostLine + 256

// readBytes is how much is read at once.
const readBytes = 32 << 10

// Open returns a Reader that begins at a Position.
func Open(dir string, from Position) *Reader { return &Reader{dir: dir, at: from} }

// Position returns the Position after the last Entry.
func (r *Reader) Position() Position { return r.at }

// Ended reports whether the log was closed and all of it has been read.
func (r *Reader) Ended() bool { return r.ended }

// Close closes the Reader.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}

// Next returns the next Entry. The error is io.EOF if there is none now; there may be one later,
// unless Ended.
func (r *Reader) Next() (Entry, error) {
	for {
		if r.ended {
			return Entry{}, io.EOF
		}
		if r.file == nil {
			if gap, err := r.openNext(); err != nil || gap != nil {
				return r.lose(gap), err
			}
		}
		line, length, err := r.line()
		switch {
		case err == nil:
			if e, ok, err := r.take(line, length); ok || err != nil {
				return e, err
			}
		case !errors.Is(err, io.EOF):
			return Entry{}, fmt.Errorf("read log: %w", err)
		default:
			gap, more, err := r.followed()
			if err != nil || gap != nil {
				return r.lose(gap), err
			}
			if !more {
				return Entry{}, io.EOF
			}
		}
	}
}

// take makes an Entry of a line of a segment. ok is false for a line that is not shown.
func (r *Reader) take(line []byte, length int64) (e Entry, ok bool, err error) {
	before, first := r.at, r.at.Offset == r.base
	r.at.Offset += length
	if first {
		lines, isHeader, err := parseHeader(line)
		if err != nil {
			return Entry{}, false, err
		}
		if isHeader {
			r.at.Line = lines
			return Entry{}, false, nil
		}
	}
	r.at.Line++
	e, r.ended, ok = parseRecord(line)
	switch {
	case !ok:
		r.ended = false
		return Entry{Lost: &Lost{1, length, Damaged}, Next: r.at}, true, nil
	case r.ended:
		r.at = before // so that a Reader that begins at this Position knows it, too
		return Entry{}, false, nil
	}
	e.Next = r.at
	return e, true, nil
}

// lose makes an Entry of lines that are missing.
func (r *Reader) lose(gap *Lost) Entry {
	if gap == nil {
		return Entry{}
	}
	return Entry{Lost: gap, Next: r.at}
}

// openNext opens the segment in which the next record is. If that was dropped, it opens the oldest
// that is there and says what is missing. The error is io.EOF if there is none.
func (r *Reader) openNext() (*Lost, error) {
	for {
		all, err := segments(r.dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0 {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		gap, err := r.openAmong(all)
		if !errors.Is(err, fs.ErrNotExist) {
			return gap, err
		}
		// It was dropped between the two looks.
	}
}

// openAmong opens one of the segments.
func (r *Reader) openAmong(all []segment) (*Lost, error) {
	for i, each := range all {
		if r.at.Offset >= each.base && (i+1 == len(all) || r.at.Offset < all[i+1].base) {
			return nil, r.openAt(each.base)
		}
	}
	return r.skipTo(all[0].base, r.at.Offset)
}

// skipTo goes on at a later segment: what begins at from is missing.
func (r *Reader) skipTo(base, from int64) (*Lost, error) {
	before := r.at
	r.at.Offset = base
	if err := r.openAt(base); err != nil {
		r.at = before
		return nil, err
	}
	gap := &Lost{Bytes: max(base-from, 0), Reason: Rotated}
	// The header says how many lines there were.
	header, err := r.lines.Peek(len(headerStart) + segmentDigits)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read log: %w", err)
	}
	line, _, _ := bytes.Cut(header, []byte("\n"))
	if lines, ok, _ := parseHeader(line); ok {
		gap.Lines, r.at.Line = max(lines-before.Line, 0), lines
	}
	return gap, nil
}

// openAt opens the segment that begins at base, at the Position.
func (r *Reader) openAt(base int64) error {
	file, err := os.Open(segment{base: base}.path(r.dir))
	if err == nil {
		_, err = file.Seek(max(r.at.Offset-base, 0), io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if r.lines == nil {
		r.lines = bufio.NewReaderSize(file, readBytes)
	}
	r.lines.Reset(file)
	r.file, r.base, r.torn, r.skipped = file, base, r.torn[:0], 0
	return nil
}

// line returns the next whole line, without its end, and how many bytes it takes. The error is
// io.EOF if there is none now; its beginning is kept.
func (r *Reader) line() (line []byte, length int64, err error) {
	for {
		part, err := r.lines.ReadSlice('\n')
		r.torn = append(r.torn, part...)
		if len(r.torn) > maxRecord { // no record, so nothing of it is kept
			r.skipped += int64(len(r.torn))
			r.torn = r.torn[:0]
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		line, length = bytes.TrimSuffix(r.torn, []byte("\n")), r.skipped+int64(len(r.torn))
		if r.skipped > 0 {
			line = nil
		}
		r.torn, r.skipped = r.torn[:0], 0
		return line, length, nil
	}
}

// followed goes on at the next segment if there is one. more means that there is something to read,
// unless lines are missing before it.
func (r *Reader) followed() (gap *Lost, more bool, err error) {
	all, err := segments(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	end := r.at.Offset + r.skipped + int64(len(r.torn))
	next := slices.IndexFunc(all, func(each segment) bool { return each.base > r.base && each.base >= end })
	if next < 0 {
		return nil, false, nil
	}
	// This segment no longer grows. What has come since the last look is read first.
	if _, err := r.lines.Peek(1); !errors.Is(err, io.EOF) {
		return nil, true, nil
	}
	base := all[next].base
	if err := r.Close(); err != nil {
		return nil, false, fmt.Errorf("read log: %w", err)
	}
	if base == end {
		r.at.Offset = end
		return nil, true, nil
	}
	if gap, err = r.skipTo(base, end); errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil // that one was dropped, too
	}
	return gap, true, err
}
