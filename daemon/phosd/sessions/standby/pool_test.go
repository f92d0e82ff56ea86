package standby

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// workerVariable makes the test binary a worker that waits.
const workerVariable = "PHOS_STANDBY_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := work(); err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type order struct{ Slot int }

// work is ready at once, and writes what it is assigned into the file that comes with it.
func work() error {
	conn, err := fdpass.Inherited(3)
	if err != nil {
		return err
	}
	var first order
	if _, err := conn.Receive(&first); err != nil {
		return err
	}
	if err := conn.Send(ready{MemoryBytes: []uint64{uint64(100 + first.Slot)}}); err != nil {
		return err
	}
	var text string
	files, err := conn.Receive(&text)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(files[0], "%d %s", first.Slot, text)
	return err
}

// seats is a table of places, of which there are three.
type seats struct {
	mu    sync.Mutex // guards taken
	taken [3]bool
}

var errFull = errors.New("no place is left")

func (s *seats) take() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := slices.Index(s.taken[:], false)
	if slot < 0 {
		return 0, errFull
	}
	s.taken[slot] = true
	return slot, nil
}

func (s *seats) leave(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[slot] = false
}

func (s *seats) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		if taken {
			n++
		}
	}
	return n
}

func newPool(t *testing.T, want int) (*Pool, *seats) {
	t.Helper()
	table := &seats{}
	p := New(Options{
		Want: want, Seat: table.take, Leave: table.leave, Log: slog.New(slog.DiscardHandler),
		Command: func(far *os.File) *exec.Cmd {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), workerVariable+"=1")
			command.ExtraFiles, command.Stderr = []*os.File{far}, os.Stderr
			return command
		},
		Order: func(slot int) (any, []*os.File) { return order{slot}, nil },
	})
	return p, table
}

// until waits for what another goroutine does.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("never: " + what)
		}
	}
}

func (p *Pool) count() int {
	n, _ := p.Waiting()
	return n
}

// TestPool: workers are there before they are needed, are replaced when they are taken, and end
// with the pool.
func TestPool(t *testing.T) {
	p, table := newPool(t, 2)
	until(t, "two wait", func() bool { return p.count() == 2 })
	if _, bytes := p.Waiting(); !slices.Equal(bytes, []uint64{100 + 101}) {
		t.Errorf("they hold %d bytes", bytes)
	}
	taken := p.Take()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := taken.Assign("a session", in); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if said, err := io.ReadAll(out); err != nil || string(said) != "0 a session" {
		t.Errorf("it says %q, %v", said, err)
	}
	if err := taken.Reap(); err != nil {
		t.Error(err)
	}
	until(t, "another one waits", func() bool { return p.count() == 2 })
	if n := table.count(); n != 3 {
		t.Errorf("%d places are taken, want 3", n)
	}
	unwanted := p.Take()
	p.Drop(unwanted)
	if err := unwanted.Assign("too late"); err == nil {
		t.Error("a worker that has ended is given a session")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p.Take() != nil || p.count() != 0 || table.count() != 1 {
		t.Errorf("after the end %d wait, and %d places are taken; want 0 and the one of a session", p.count(), table.count())
	}
}

// TestEnds: one that ends by itself leaves its place, and is not handed out.
func TestEnds(t *testing.T) {
	p, table := newPool(t, 1)
	until(t, "one waits", func() bool { return p.count() == 1 })
	p.mu.Lock()
	process := p.waiting[0].command.Process
	p.mu.Unlock()
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "its place is free", func() bool { return table.count() == 0 })
	if p.Take() != nil {
		t.Error("a dead worker is handed out")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
