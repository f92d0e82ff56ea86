package wire

import (
	"strings"
	"testing"
)

// A message that is too long is truncated and says where the rest is.
func TestLongMessage(t *testing.T) {
	for length, want := range map[int]string{
		0: "", welcomeMessage - 1: strings.Repeat("x", welcomeMessage-1), welcomeMessage: cutOff, 5000: cutOff,
	} {
		sent := Welcome{Message: strings.Repeat("x", length), ArenaPath: "/a"}
		data := sent.Append(nil)
		var got Welcome
		if version, err := got.Decode(data); err != nil || version != Version || got.ArenaPath != "/a" {
			t.Errorf("%d bytes: %+v, version %d, %v", length, got, version, err)
		}
		if !strings.HasSuffix(got.Message, want) || len(got.Message) != min(length, welcomeMessage-1) {
			t.Errorf("message of %d bytes is decoded as %q", length, got.Message)
		}
	}
}
