package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestStream sends an image through a pipe. Data after the stream is not read.
func TestStream(t *testing.T) {
	for _, what := range []saved{small(1), sample(2)} {
		from := initDir(t, t.TempDir())
		put(t, from, small(9))
		put(t, from, what)
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() {
			err := WriteStream(context.Background(), from, 0, writer)
			_, _ = writer.WriteString("behind")
			_ = writer.Close()
			sent <- err
		}()
		path := t.TempDir()
		to := initDir(t, path)
		n, err := ReadStream(context.Background(), reader, to)
		if err != nil || n != 2 {
			t.Fatalf("generation %d, %v", n, err)
		}
		check(t, to, 2, what)
		if rest, err := io.ReadAll(reader); err != nil || string(rest) != "behind" || <-sent != nil {
			t.Errorf("after the stream: %q, %v", rest, err)
		}
		if found := problems(t, path); len(found) > 0 {
			t.Error(found)
		}
		// The next generation has the next number; an older one is rejected.
		if n := put(t, to, small(4)); n != 3 {
			t.Errorf("got generation %d after a stream of generation 2", n)
		}
		var again bytes.Buffer
		if err := WriteStream(context.Background(), from, 2, &again); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadStream(context.Background(), &again, to); !errors.Is(err, ErrOlder) {
			t.Errorf("an older generation: %v", err)
		}
	}
}

// TestBrokenStream truncates a stream and flips bits at many offsets: the directory stays empty.
func TestBrokenStream(t *testing.T) {
	from := initDir(t, t.TempDir())
	put(t, from, saved{memory: [][]byte{noise(1, 50), bytes.Repeat([]byte("short"), 50)}, compress: true})
	var whole bytes.Buffer
	if err := WriteStream(context.Background(), from, 1, &whole); err != nil {
		t.Fatal(err)
	}
	raw := whole.Bytes()
	try := func(what string, at int, stream []byte) {
		t.Helper()
		path := t.TempDir()
		to, err := Init(openDir(t, path))
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if _, err := ReadStream(context.Background(), bytes.NewReader(stream), to); err == nil {
			t.Errorf("%s at %d of %d: accepted", what, at, len(raw))
		}
		if left, err := os.ReadDir(path); len(left) > 0 || err != nil {
			t.Errorf("%s at %d: left %v, %v", what, at, left, err)
		}
	}
	for at := 0; at < len(raw); at += 23 {
		try("cut", at, raw[:at])
	}
	for at := 0; at < len(raw); at += 7 {
		flipped := bytes.Clone(raw)
		flipped[at] ^= 1 << (at % 8)
		try("flip", at, flipped)
	}
}

// narrow is a writer that accepts a limited number of bytes.
type narrow struct{ room int }

func (n *narrow) Write(bytes []byte) (int, error) {
	if n.room -= len(bytes); n.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(bytes), nil
}

// TestStreamWriteError: a failing writer's error is returned, and names the content once.
func TestStreamWriteError(t *testing.T) {
	from := initDir(t, t.TempDir())
	put(t, from, sample(2))
	var whole bytes.Buffer
	if err := WriteStream(context.Background(), from, 0, &whole); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, whole.Len() / 2, whole.Len() - 1} {
		err := WriteStream(context.Background(), from, 0, &narrow{room: room})
		if !errors.Is(err, io.ErrShortWrite) || strings.Count(err.Error(), "gpu of pid") > 1 {
			t.Errorf("with room for %d of %d bytes: %v", room, whole.Len(), err)
		}
	}
}
