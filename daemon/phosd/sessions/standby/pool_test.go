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

// workerVariable makes the test binary a standby worker.
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

type setup struct{ Slot int }

// work is ready at once, and writes what it is assigned to the file that comes with it.
func work() error {
	conn, err := fdpass.Inherited(3)
	if err != nil {
		return err
	}
	var first setup
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

// slots is a memory accounting with three slots.
type slots struct {
	mu    sync.Mutex // guards taken
	taken [3]bool
}

var errFull = errors.New("all slots are in use")

func (s *slots) reserve() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := slices.Index(s.taken[:], false)
	if slot < 0 {
		return 0, errFull
	}
	s.taken[slot] = true
	return slot, nil
}

func (s *slots) release(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[slot] = false
}

func (s *slots) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		if taken {
			n++
		}
	}
	return n
}

func newPool(t *testing.T, size int) (*Pool, *slots) {
	t.Helper()
	accounts := &slots{}
	p := New(Options{
		Size: size, Reserve: accounts.reserve, Release: accounts.release, Log: slog.New(slog.DiscardHandler),
		Command: func(far *os.File) *exec.Cmd {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), workerVariable+"=1")
			command.ExtraFiles, command.Stderr = []*os.File{far}, os.Stderr
			return command
		},
		Setup: func(slot int) (any, []*os.File) { return setup{slot}, nil },
	})
	return p, accounts
}

// until polls a condition that another goroutine makes true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("timeout: " + what)
		}
	}
}

func (p *Pool) count() int {
	n, _ := p.Ready()
	return n
}

// TestPool checks that workers are started in advance, replaced when taken, and end with the pool.
func TestPool(t *testing.T) {
	p, accounts := newPool(t, 2)
	until(t, "two workers ready", func() bool { return p.count() == 2 })
	if _, bytes := p.Ready(); !slices.Equal(bytes, []uint64{100 + 101}) {
		t.Errorf("memory held: got %d bytes", bytes)
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
		t.Errorf("output of the assigned worker: got %q, %v", said, err)
	}
	if err := taken.Reap(); err != nil {
		t.Error(err)
	}
	until(t, "taken worker replaced", func() bool { return p.count() == 2 })
	if n := accounts.count(); n != 3 {
		t.Errorf("got %d slots in use, want 3", n)
	}
	unwanted := p.Take()
	p.Release(unwanted)
	if err := unwanted.Assign("too late"); err == nil {
		t.Error("Assign after Release: got no error")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p.Take() != nil || p.count() != 0 || accounts.count() != 1 {
		t.Errorf("after Close: got %d workers and %d slots in use, want 0 and 1", p.count(), accounts.count())
	}
}

// TestExit checks that a worker which exits by itself releases its slot and is not handed out.
func TestExit(t *testing.T) {
	p, accounts := newPool(t, 1)
	until(t, "one worker ready", func() bool { return p.count() == 1 })
	p.mu.Lock()
	process := p.ready[0].command.Process
	p.mu.Unlock()
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "slot released", func() bool { return accounts.count() == 0 })
	if p.Take() != nil {
		t.Error("Take returned a dead worker")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestBackoff: the next worker has to wait as soon as the pool lacks one that has exited.
func TestBackoff(t *testing.T) {
	p, accounts := newPool(t, 0) // which starts none by itself
	waits := make(chan bool, 1)
	p.options.Release = func(slot int) {
		accounts.release(slot)
		waits <- p.takeBackoff()
	}
	if err := p.add(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	process := p.ready[0].command.Process
	p.mu.Unlock()
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !<-waits {
		t.Error("the next worker would be started at once")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
