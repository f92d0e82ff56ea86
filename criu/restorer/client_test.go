package restorer

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestAdoptEnded adopts a restorer that ends at any time between the two connections of Adopt: its
// listener closes before or after the second one connects, sends or receives.
func TestAdoptEnded(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "restorer")
	for round := range 300 {
		file, err := fdpass.Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := fdpass.TakeListener(file)
		if err != nil {
			t.Fatal(err)
		}
		go acceptOnce(listener, round)
		if _, err := Adopt(socket); !errors.Is(err, proc.ErrGone) {
			t.Fatalf("round %d: got %v, want %v", round, err, proc.ErrGone)
		}
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
}

// acceptOnce accepts one connection and closes the listener some turns of the scheduler later.
func acceptOnce(listener *fdpass.Listener, turns int) {
	conn, err := listener.Accept()
	for range turns {
		runtime.Gosched()
	}
	_ = listener.Close()
	if err == nil {
		_ = conn.Close()
	}
	_, _ = listener.Accept() // its error frees the listener's reserve
}
