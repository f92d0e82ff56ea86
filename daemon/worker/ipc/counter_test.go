package ipc

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// TestCounter maps one counter twice, as two processes would.
func TestCounter(t *testing.T) {
	here, err := NewCounter(5)
	if err != nil {
		t.Fatal(err)
	}
	other, err := here.File()
	if err != nil {
		t.Fatal(err)
	}
	there, err := OpenCounter(other)
	if err != nil {
		t.Fatal(err)
	}
	if !there.Reached(5) || there.Asked() != 5 {
		t.Errorf("asked %d, reached %v, want 5, true", there.Asked(), there.Reached(5))
	}
	if n := there.Ask(); n != 6 || here.Asked() != 6 || here.Reached(6) {
		t.Errorf("new recording %d of %d is reached already", n, here.Asked())
	}
	here.Reach(6)
	here.Reach(2)
	if !there.Reached(6) {
		t.Error("a reached recording is not reported as reached")
	}
	if err := errors.Join(here.Close(), there.Close()); err != nil {
		t.Error(err)
	}
	if _, err := OpenCounter(file(t, string(make([]byte, counterBytes)))); !errors.Is(err, abi.InvalidHandle) {
		t.Errorf("file without seal: got %v, want InvalidHandle", err)
	}
}
