package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestMessages: what one end sends the other one receives, with the bytes in between.
func TestMessages(t *testing.T) {
	var sent bytes.Buffer
	from := New(strings.NewReader(""), &sent)
	const stream = "no line\n\x00\xff"
	if err := errors.Join(
		from.Send(Message{Kind: Hello, Version: Version, GPUs: "1,\n2", NewPids: true}),
		from.SendStream(Message{Kind: Round}, func(to io.Writer) error {
			_, err := io.WriteString(to, stream)
			return err
		}),
		from.Send(Message{Kind: Go}),
	); err != nil {
		t.Fatal(err)
	}
	to := New(&sent, io.Discard)
	got, err := to.Receive()
	if want := (Message{Kind: Hello, Version: Version, GPUs: "1,\n2", NewPids: true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := to.Receive(); err != nil || got.Kind != Round {
		t.Errorf("got %+v, %v", got, err)
	}
	raw := make([]byte, len(stream))
	if _, err := io.ReadFull(to.Stream(), raw); err != nil || string(raw) != stream {
		t.Errorf("got %q, %v", raw, err)
	}
	if got, err := to.Receive(); err != nil || got.Kind != Go {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := to.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestForeign: other lines are refused, also those that never end.
func TestForeign(t *testing.T) {
	for name, text := range map[string]string{
		"text": "Welcome to Debian\n", "no kind": "{}\n", "cut": `{"kind":"go"`, "other type": "[1]\n",
		"endless": strings.Repeat("x", 10*bufferBytes),
	} {
		if m, err := New(strings.NewReader(text), io.Discard).Receive(); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
}
