package linelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// Limits bound a log.
type Limits struct {
	// TotalBytes is what all its files take; 0 means 64 MiB.
	TotalBytes int64 `json:"total_bytes,omitempty"`
	// LineBytes is the longest part of a line that is one record; 0 means 16 KiB.
	LineBytes int `json:"line_bytes,omitempty"`
}

// Bounds of Limits.
const (
	defaultTotal = 64 << 20
	leastTotal   = 1 << 20
	mostTotal    = 1 << 40
	defaultLine  = 16 << 10
	leastLine    = 64
	mostLine     = 64 << 10
)

// ErrLimits is returned for Limits that no log can have.
var ErrLimits = errors.New("limits of a log: want 1 MiB to 1 TiB in all, and 64 bytes to 64 KiB for a line")

// Check returns the Limits with defaults filled in.
func (l Limits) Check() (Limits, error) {
	if l.TotalBytes == 0 {
		l.TotalBytes = defaultTotal
	}
	if l.LineBytes == 0 {
		l.LineBytes = defaultLine
	}
	if l.TotalBytes < leastTotal || l.TotalBytes > mostTotal || l.LineBytes < leastLine || l.LineBytes > mostLine {
		return l, ErrLimits
	}
	return l, nil
}

const (
	// segmentsOfLog is how many segments a full log has: a part of it is dropped at a time.
	segmentsOfLog = 8
	// batchBytes is about how much is written at once. A segment has room for it.
	batchBytes = 16 << 10
	// lostBytes is more than a record of lost lines takes.
	lostBytes = 256
	// partialTime is how long the beginning of a line waits for its end.
	partialTime = 500 * time.Millisecond
)

// Writer writes a log. What it cannot write is lost and counted: the processes that print do not
// wait for a disk with room.
type Writer struct {
	dir    string
	limits Limits

	mu sync.Mutex // guards all below
	// file is that of the newest segment; nil if it could not be created.
	file *os.File
	// now is the newest segment, older are those before.
	now   segment
	older []segment
	// lines are those before now, and in it.
	lines int64
	// batch has records that are not yet written: count of them, with texts of so many bytes.
	batch []byte
	count int64
	// lost is not yet written.
	lost Lost
	// partial are the Sources with the beginning of a line. Then timer is set.
	partial map[*Source]bool
	timer   *time.Timer
	closed  bool
}

// Create makes the directory of a log, and its first segment.
func Create(dir string, limits Limits) (*Writer, error) {
	limits, err := limits.Check()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	w := &Writer{dir: dir, limits: limits, partial: map[*Source]bool{}}
	if err := w.begin(); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	return w, nil
}

// add adds a record to the batch.
func (w *Writer) add(e *Entry) {
	w.batch = appendText(w.batch, e)
	w.count++
	if len(w.batch) >= batchBytes {
		w.flush()
	}
}

// flush writes the batch. What cannot be written is lost.
func (w *Writer) flush() {
	if w.count == 0 {
		return
	}
	if err := w.write(); err != nil {
		w.lost = Lost{w.lost.Lines + w.count, w.lost.Bytes + int64(len(w.batch)), reason(err)}
	}
	w.batch, w.count = w.batch[:0], 0
}

// reason returns the kernel's part of an error: paths of this machine are not for a log's readers.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

// write appends the batch to the newest segment, or to another one if that is full.
func (w *Writer) write() error {
	if w.file == nil || w.now.bytes+int64(len(w.batch))+lostBytes > w.limits.TotalBytes/segmentsOfLog {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	if w.lost.Lines > 0 {
		if err := w.append(appendLost(nil, time.Now(), w.lost), 1); err != nil {
			return err
		}
		w.lost = Lost{}
	}
	return w.append(w.batch, w.count)
}

// append writes whole records, or none.
func (w *Writer) append(records []byte, lines int64) error {
	written, err := w.file.Write(records)
	if err == nil {
		w.now.bytes += int64(len(records))
		w.lines += lines
		return nil
	}
	if written > 0 {
		if truncated := w.file.Truncate(w.now.bytes); truncated != nil {
			// The torn record stays. Another segment begins.
			w.now.bytes += int64(written)
			err = errors.Join(err, w.file.Close())
			w.file = nil
		}
	}
	return err
}

// rotate begins another segment, and drops the oldest if there are too many.
func (w *Writer) rotate() error {
	if w.file != nil {
		_ = w.file.Close() // a late error of a disk: what was written stays counted as written
		w.file = nil
	}
	if w.now.bytes > 0 {
		w.older = append(w.older, w.now)
		w.now = segment{base: w.now.base + w.now.bytes}
	}
	for len(w.older) >= segmentsOfLog {
		if err := os.Remove(w.older[0].path(w.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w.older = w.older[1:]
	}
	return w.begin()
}

// begin creates the file of the newest segment.
func (w *Writer) begin() error {
	// One that could not be written before may be there, empty or with a torn header.
	flags := os.O_CREATE | os.O_TRUNC | os.O_WRONLY | os.O_APPEND
	file, err := os.OpenFile(w.now.path(w.dir), flags, 0o600)
	if err != nil {
		return err
	}
	header := appendHeader(nil, w.lines)
	if _, err := file.Write(header); err != nil {
		return errors.Join(err, file.Close())
	}
	w.file, w.now.bytes = file, int64(len(header))
	return nil
}

// Close ends the log: what Sources still hold is written, and then the last record.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.writePartial(0)
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.batch, w.count = appendEnd(w.batch, time.Now()), w.count+1
	w.flush()
	var err error
	if w.lost.Lines > 0 {
		err = fmt.Errorf("write log: %s", w.lost.Reason)
	}
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	return err
}
