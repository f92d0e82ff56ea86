package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// End reads the last records of a log that begin at an offset or after it: whole ones, of one
// segment, at most so many bytes. It returns at which offset they begin. An error of io.EOF means
// that there is nothing new.
func End(dir string, from int64, most int) (offset int64, records []byte, err error) {
	all, err := segments(dir)
	if err != nil {
		return 0, nil, err
	}
	if len(all) == 0 {
		return 0, nil, io.EOF
	}
	last := all[len(all)-1]
	start := max(from, all[0].base, last.base+last.bytes-int64(most))
	for _, each := range all {
		if each.base+each.bytes <= start {
			continue
		}
		offset, records, err = each.readFrom(dir, max(start, each.base), most)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(records) == 0 {
			continue // it was dropped now, or what is left of it is torn
		}
		if err == nil && offset != from && offset != each.base {
			offset, records = afterFirst(offset, records)
		}
		return offset, records, err
	}
	return 0, nil, io.EOF
}

// readFrom reads the whole records of a segment from an offset on.
func (s segment) readFrom(dir string, from int64, most int) (int64, []byte, error) {
	file, err := os.Open(s.path(dir))
	if err != nil {
		return 0, nil, fmt.Errorf("read log: %w", err)
	}
	defer file.Close()
	records := make([]byte, min(int64(most), s.base+s.bytes-from))
	n, err := file.ReadAt(records, from-s.base)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, fmt.Errorf("read log: %w", err)
	}
	return from, records[:bytes.LastIndexByte(records[:n], '\n')+1], nil
}

// afterFirst drops the first line, of which only the end may be there.
func afterFirst(offset int64, records []byte) (int64, []byte) {
	cut := bytes.IndexByte(records, '\n') + 1
	return offset + int64(cut), records[cut:]
}

// ErrMirror is returned for records that cannot follow what a Mirror has.
var ErrMirror = errors.New("records of a log that do not follow it")

// Mirror appends records that End has read elsewhere to the copy of a log, and drops the oldest
// ones beyond a limit. Readers see it as the log, without what is missing. Records that the copy
// has are passed over. It returns the offset of what should come next.
func Mirror(dir string, offset int64, records []byte, limit int64) (next int64, err error) {
	if offset < 0 || len(records) == 0 || records[len(records)-1] != '\n' {
		return 0, fmt.Errorf("%w: %d bytes at offset %d", ErrMirror, len(records), offset)
	}
	all, err := segments(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	at := segment{base: offset}
	if len(all) > 0 {
		last := all[len(all)-1]
		next = last.base + last.bytes
		if offset < next {
			return next, nil
		}
		if offset == next && last.bytes < limit/4 && !bytes.HasPrefix(records, []byte(anyHeader)) {
			at, all = last, all[:len(all)-1]
		}
	}
	if err := at.append(dir, records); err != nil {
		return 0, err
	}
	at.bytes += int64(len(records))
	return at.base + at.bytes, dropOldest(dir, append(all, at), limit)
}

// append appends records to the file of a segment. A write that has failed leaves no part of them.
func (s segment) append(dir string, records []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	file, err := os.OpenFile(s.path(dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(records); err != nil {
		_ = file.Truncate(s.bytes) // otherwise the next records follow a torn one
		return fmt.Errorf("keep log: %w", err)
	}
	return nil
}

// dropOldest removes segments until the others have at most so many bytes. The last one stays.
func dropOldest(dir string, all []segment, limit int64) error {
	var total int64
	for _, each := range all {
		total += each.bytes
	}
	for i := 0; i < len(all)-1 && total > limit; i++ {
		if err := os.Remove(all[i].path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop log: %w", err)
		}
		total -= all[i].bytes
	}
	return nil
}
