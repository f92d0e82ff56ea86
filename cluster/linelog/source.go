package linelog

import (
	"bytes"
	"time"
)

// Source takes what one process writes to one stream, and cuts it into lines.
type Source struct {
	writer  *Writer
	process int
	stream  Stream
	// begun is a line without its end, since is when it began.
	begun []byte
	since time.Time
}

// Source returns the Source of a process's stream.
func (w *Writer) Source(process int, stream Stream) *Source {
	return &Source{writer: w, process: process, stream: stream}
}

// Write takes bytes of the stream. It keeps none of them and returns no error: see Writer.
func (s *Source) Write(data []byte) {
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	now := time.Now()
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		room := w.limits.LineBytes - len(s.begun)
		if len(line) > room {
			line, rest, ended = data[:room], data[room:], false
		}
		data = rest
		switch full := len(line) == room; {
		case len(s.begun) == 0 && (ended || full):
			s.add(now, line, !ended)
		default:
			s.begin(now, line)
			if ended || full {
				s.finish(!ended)
			}
		}
	}
	w.flush()
	s.await()
}

// begin keeps the beginning of a line, or more of it.
func (s *Source) begin(now time.Time, line []byte) {
	if len(s.begun) == 0 {
		s.since = now
	}
	s.begun = append(s.begun, line...)
}

// finish writes the line that has begun.
func (s *Source) finish(partial bool) {
	s.add(s.since, s.begun, partial)
	s.begun = s.begun[:0]
}

func (s *Source) add(at time.Time, text []byte, partial bool) {
	s.writer.add(&Entry{Time: at, Process: s.process, Stream: s.stream, Text: text, Partial: partial})
}

// await writes the beginning of a line later, if its end does not come: a progress bar has none.
func (s *Source) await() {
	w := s.writer
	if len(s.begun) == 0 {
		delete(w.partial, s)
		return
	}
	w.partial[s] = true
	if w.timer == nil {
		w.timer = time.AfterFunc(partialTime, w.timeout)
	}
}

// timeout writes the beginnings of lines that have waited long enough, and waits for the others.
func (w *Writer) timeout() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	if w.closed {
		return
	}
	w.writePartial(partialTime)
	if len(w.partial) > 0 {
		w.timer = time.AfterFunc(w.nextPartial(), w.timeout)
	}
}

// writePartial writes the beginnings of lines that have waited so long.
func (w *Writer) writePartial(waited time.Duration) {
	for source := range w.partial {
		if time.Since(source.since) < waited {
			continue
		}
		source.finish(true)
		source.begun = nil // most have none
		delete(w.partial, source)
	}
	w.flush()
}

// nextPartial is when the next beginning of a line will have waited long enough.
func (w *Writer) nextPartial() time.Duration {
	next := partialTime
	for source := range w.partial {
		next = min(next, partialTime-time.Since(source.since))
	}
	return next
}
