package fdpass

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzReceive sends an arbitrary packet. It is a message or an error, and the next packet still
// arrives.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{`{"Name":"a","PIDs":[1,2]}`, `{"Name":`, `null`, "\x00", `{"PIDs":[-1e999]}`} {
		f.Add([]byte(seed))
	}
	type message struct {
		Name string
		PIDs []int
	}
	near, file, err := Pair()
	if err != nil {
		f.Fatal(err)
	}
	far, err := NewConn(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { near.Close(); far.Close() })
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) == 0 || len(packet) > 64<<10 {
			return // an empty packet is the end
		}
		if _, _, err := near.socket.WriteMsgUnix(packet, nil, nil); err != nil {
			t.Fatal(err)
		}
		var got message
		files, err := far.Receive(&got)
		if Close(files); len(files) > 0 {
			t.Errorf("received %d files that were not sent", len(files))
		}
		if err == nil && !json.Valid(packet) {
			t.Errorf("%q decoded as %+v", packet, got)
		}
		if err := near.Send(message{Name: "next"}); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Receive(&got); err != nil || got.Name != "next" {
			t.Errorf("after %q: got %+v, %v", bytes.TrimSpace(packet), got, err)
		}
	})
}
