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

// idleTime is how long the outlets of a program that has ended must be silent when something still
// holds them open.
const idleTime = 200 * time.Millisecond

// Flow is the copying between Ends and Standard while the program runs.
type Flow struct {
	endpoints *Endpoints
	// copied counts copied bytes, so that Finish sees whether any still come.
	copied        atomic.Uint64
	outlets       sync.WaitGroup
	resizes       chan os.Signal
	resetTerminal func() error
}

// Start begins to copy. A caller's terminal is in raw mode from here until Finish when a pseudo
// terminal reads from it: the program's own terminal makes signals of keys.
func (e *Endpoints) Start() (*Flow, error) {
	f := &Flow{endpoints: e, resizes: make(chan os.Signal, 1), resetTerminal: func() error { return nil }}
	for _, p := range e.pairs {
		if p.pty && p.input != nil {
			undo, err := setRaw(p.input)
			if err != nil {
				return nil, err
			}
			f.resetTerminal = undo
		}
	}
	for _, p := range e.pairs {
		if p.output != nil {
			f.outlets.Go(func() { f.copyBytes(p.output, p.ours) })
		}
		if p.input != nil {
			go f.copyInput(p)
		}
	}
	signal.Notify(f.resizes, syscall.SIGWINCH)
	go f.resize(e.pairs)
	return f, nil
}

// copyInput ends with the input, or with the program; a read from the caller's terminal may outlive it.
func (f *Flow) copyInput(p pair) {
	f.copyBytes(p.ours, p.input)
	switch {
	case p.pty:
		_ = sendEOF(p.ours) // it is gone, or it has been told
	case p.output == nil:
		_ = p.ours.Close() // the program sees the end
	default:
		_ = unix.Shutdown(int(p.ours.Fd()), unix.SHUT_WR)
	}
}

// copyBytes moves bytes until one side is closed. A pseudo terminal whose slave is closed fails with
// EIO, which is its end.
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

func (f *Flow) resize(pairs []pair) {
	for range f.resizes {
		size := f.endpoints.size()
		for _, p := range pairs {
			if size != nil && p.pty {
				_ = unix.IoctlSetWinsize(int(p.ours.Fd()), unix.TIOCSWINSZ, size) // it may have ended
			}
		}
	}
}

// Finish waits until what the program wrote is written, and makes the caller's terminal as it was.
// A child that the program left behind may hold its outlets open: then it waits until they are
// silent.
func (f *Flow) Finish() error {
	closed := make(chan struct{})
	go func() {
		f.outlets.Wait()
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

// Stop makes the caller's terminal as it was, and waits for nothing.
func (f *Flow) Stop() error {
	signal.Stop(f.resizes)
	close(f.resizes)
	return f.resetTerminal()
}
