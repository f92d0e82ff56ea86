package fdpass

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func pair(t *testing.T) (near, far *Conn) {
	t.Helper()
	near, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	far, err = NewConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestMessageWithFiles(t *testing.T) {
	near, far := pair(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	long := strings.Repeat("x", 300_000)
	if err := near.Send(long, file, file); err != nil {
		t.Fatal(err)
	}
	var got string
	files, err := far.Receive(&got)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(files)
	if got != long || len(files) != 2 {
		t.Fatalf("received %d bytes and %d files", len(got), len(files))
	}
	text, err := io.ReadAll(files[1])
	if err != nil || string(text) != "content" {
		t.Errorf("file content %q, %v", text, err)
	}
}

func TestReceiveEnd(t *testing.T) {
	near, far := pair(t)
	if err := near.Send(1); err != nil {
		t.Fatal(err)
	}
	near.Close()
	var number int
	if _, err := far.Receive(&number); err != nil || number != 1 {
		t.Errorf("received %d, %v before the end", number, err)
	}
	if _, err := far.Receive(&number); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWrongMessage(t *testing.T) {
	near, far := pair(t)
	if err := near.Send("text"); err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := far.Receive(&number); err == nil {
		t.Error("a text was decoded as a number")
	}
}

// TestDeadline: neither Send nor Receive waits longer for an inactive peer.
func TestDeadline(t *testing.T) {
	near, _ := pair(t)
	if err := near.Deadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := near.Receive(&number); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("receive: %v", err)
	}
	long := strings.Repeat("x", 1<<20)
	var err error
	for range 1000 {
		if err = near.Send(long); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
}
