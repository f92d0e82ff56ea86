package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// kept is a file in memory.
type kept struct{ bytes.Buffer }

func (*kept) Close() error { return nil }

// last is the tail of a trace, every line of which must be JSON.
func last(t *testing.T, text []byte) (tail Tail, lines int) {
	t.Helper()
	for line := range bytes.Lines(text) {
		tail = Tail{}
		if err := json.Unmarshal(line, &tail); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines++
	}
	return tail, lines
}

func TestLimit(t *testing.T) {
	const limit = 10_000
	var file kept
	log := New(&file, limit, Head{Trace: Version, Begun: time.Now()})
	for n := range uint64(1000) {
		log.Write(&Call{N: n + 1, Call: "launch"})
	}
	calls, err := log.Close()
	if !errors.Is(err, ErrFull) || file.Len() > limit {
		t.Errorf("%d bytes, %v", file.Len(), err)
	}
	tail, lines := last(t, file.Bytes())
	if tail.Calls != calls || tail.Error == "" || calls == 0 || lines != int(calls)+2 {
		t.Errorf("%d calls, %d lines, the last is %+v", calls, lines, tail)
	}
}

func TestClosedTwice(t *testing.T) {
	var file kept
	log := New(&file, DefaultLimit, Head{Trace: Version})
	log.Write(&Call{N: 1})
	log.Write(&Call{}) // what is no call does not count
	for range 2 {
		if calls, err := log.Close(); calls != 1 || err != nil {
			t.Errorf("%d calls, %v", calls, err)
		}
		log.Write(&Call{N: 2})
	}
	if tail, lines := last(t, file.Bytes()); tail.Calls != 1 || lines != 4 {
		t.Errorf("%d lines, the last is %+v", lines, tail)
	}
}

// TestStuck: a pipe that nobody reads ends the trace, not the program.
func TestStuck(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log := New(write, DefaultLimit, Head{Trace: Version})
	line := &Call{N: 1, Call: string(bytes.Repeat([]byte("x"), bufferBytes/2))}
	for range 4 * buffers { // it would wait for ever if it waited for each
		log.Write(line)
	}
	if _, err := log.Close(); !errors.Is(err, ErrSlow) {
		t.Errorf("it ends with %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	<-log.done
	_, _ = read.Close(), write.Close()
}
