package exitwatch

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// threads ends a thread for each line of input and confirms it.
const threads = `
import sys, threading
print("begun", flush=True)
for line in sys.stdin:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    print("a thread has ended", flush=True)
`

type program struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T) *program {
	t.Helper()
	p := &program{Cmd: exec.Command("python3", "-c", threads)}
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Skip("needs python3:", err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	p.says("begun\n", t)
	return p
}

func (p *program) says(want string, t *testing.T) {
	t.Helper()
	if got, err := p.out.ReadString('\n'); got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// TestExits: the end of a process is reported once, whatever the cause. The end of a thread or of a
// forgotten process is not.
func TestExits(t *testing.T) {
	w, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	told := make(chan int, 16)
	watch := func(p *program) (forget func()) {
		forget, err := w.Add(p.Process.Pid, func() { told <- p.Process.Pid })
		if err != nil {
			t.Fatal(err)
		}
		return forget
	}
	killed, left, forgotten, twice := start(t), start(t), start(t), start(t)
	watch(killed)
	watch(left)
	watch(forgotten)()
	watch(twice)()
	watch(twice)
	for range 3 {
		_, _ = io.WriteString(killed.in, "\n")
		killed.says("a thread has ended\n", t)
	}
	end := func(p *program) {
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // killed by the signal
	}
	end(forgotten)
	end(killed)
	if pid := <-told; pid != killed.Process.Pid {
		t.Errorf("got pid %d, want %d, which was killed", pid, killed.Process.Pid)
	}
	_ = left.in.Close()
	if pid := <-told; pid != left.Process.Pid {
		t.Errorf("got pid %d, want %d, which has ended", pid, left.Process.Pid)
	}
	end(twice)
	if pid := <-told; pid != twice.Process.Pid || len(told) > 0 {
		t.Errorf("got pid %d and %d more, want %d, which was killed", pid, len(told), twice.Process.Pid)
	}
}
