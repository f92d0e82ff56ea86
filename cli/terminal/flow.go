package terminal

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// idleTime is how long the outputs of an ended program must be silent before Finish returns, if
// another process still holds them open.
const idleTime = 200 * time.Millisecond

// Flow copies between Endpoints and Standard while the program runs.
type Flow struct {
	endpoints *Endpoints
	// copied counts bytes, so that Finish sees whether more arrive.
	copied        atomic.Uint64
	outputs       sync.WaitGroup
	resizes       chan os.Signal
	resetTerminal func() error
}

// Start begins to copy. If a pseudo terminal reads from the caller's terminal, that is in raw mode
// until Finish: the program's terminal turns keys into signals.
func (e *Endpoints) Start() (*Flow, error) {
	f := &Flow{endpoints: e, resizes: make(chan os.Signal, 1), resetTerminal: func() error { return nil }}
	for _, p := range e.pairs {
		if p.pty && p.input != nil {
			undo, err := SetRaw(p.input)
			if err != nil {
				return nil, err
			}
			f.resetTerminal = undo
		}
	}
	for _, p := range e.pairs {
		if p.output != nil {
			f.outputs.Go(func() { f.copyBytes(p.output, p.ours) })
		}
		if p.input != nil {
			go f.copyInput(p)
		}
	}
	signal.Notify(f.resizes, syscall.SIGWINCH)
	go f.resize(e.pairs)
	return f, nil
}

// copyInput copies until the input or the program ends. A read from the caller's terminal may block
// longer than that.
func (f *Flow) copyInput(p pair) {
	f.copyBytes(p.ours, p.input)
	switch {
	case p.pty:
		_ = sendEOF(p.ours) // fails if the program has ended
	case p.output == nil:
		_ = p.ours.Close() // the program sees the end
	default:
		_ = unix.Shutdown(int(p.ours.Fd()), unix.SHUT_WR)
	}
}

// copyBytes copies until one side is closed. A pseudo terminal whose slave is closed returns EIO.
func (f *Flow) copyBytes(to, from *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			f.copied.Add(uint64(n))
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// resize gives the program's terminals the caller's size after each change of it.
func (f *Flow) resize(pairs []pair) {
	for range f.resizes {
		size := f.endpoints.size()
		for _, p := range pairs {
			if size != nil && p.pty {
				_ = unix.IoctlSetWinsize(int(p.ours.Fd()), unix.TIOCSWINSZ, size) // fails if the program has ended
			}
		}
	}
}

// Finish drains the program's output and resets the caller's terminal. If a child of the program
// still holds the output open, Finish waits until it is silent.
func (f *Flow) Finish() error {
	closed := make(chan struct{})
	go func() {
		f.outputs.Wait()
		close(closed)
	}()
	ticker := time.NewTicker(idleTime)
	defer ticker.Stop()
	for last, open := f.copied.Load(), true; open; {
		select {
		case <-closed:
			open = false
		case <-ticker.C:
			now := f.copied.Load()
			open, last = now != last, now
		}
	}
	return f.Stop()
}

// Stop resets the caller's terminal without waiting.
func (f *Flow) Stop() error {
	signal.Stop(f.resizes)
	close(f.resizes)
	return f.resetTerminal()
}
