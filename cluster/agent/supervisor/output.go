package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
)

// output reads what processes print, and writes it to the log. A process waits only while the log
// is being written.
type output struct {
	lines *linelog.Writer
	pipes []outputPipe
	all   sync.WaitGroup

	mu sync.Mutex // guards buffer: one for all pipes, of which most are idle
	// buffer is as large as a pipe.
	buffer []byte
}

// outputPipe is this process's end of a pipe, with where in the log it belongs.
type outputPipe struct {
	*os.File
	to *linelog.Source
}

const pipeBytes = 64 << 10

func newOutput(lines *linelog.Writer) *output {
	return &output{lines: lines, buffer: make([]byte, pipeBytes)}
}

// open returns the descriptors of a process for its standard output and error. The caller closes
// them once the process has them. They are its user's, so that it can open /dev/stdout, and that
// they can take the place of others when the process is restored.
func (o *output) open(process int, uid uint32) (theirs [2]int, err error) {
	for i, stream := range []linelog.Stream{linelog.Out, linelog.Err} {
		ours, its, err := newPipe(stream.String(), uid)
		theirs[i] = its
		if err != nil {
			return theirs, err
		}
		pipe := outputPipe{ours, o.lines.Source(process, stream)}
		o.pipes = append(o.pipes, pipe)
		o.all.Go(func() { o.copy(pipe) })
	}
	return theirs, nil
}

// newPipe returns this process's end of a pipe, and a user's, to which that writes.
func newPipe(name string, uid uint32) (ours *os.File, theirs int, err error) {
	var pair [2]int
	if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("pipe: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, pair[1], fmt.Errorf("pipe: %w", err)
	}
	if err := unix.Fchown(pair[1], int(uid), -1); err != nil {
		return nil, pair[1], fmt.Errorf("pipe of user %d: %w", uid, err)
	}
	return os.NewFile(uintptr(pair[0]), name), pair[1], nil
}

// copy reads a pipe until all its writers have closed it.
func (o *output) copy(pipe outputPipe) {
	raw, err := pipe.SyscallConn()
	for ended := false; err == nil && !ended; {
		err = raw.Read(func(fd uintptr) (done bool) {
			done, ended = o.read(int(fd), pipe.to)
			return done
		})
	}
}

// read reads once. done is false if there is nothing to read now.
func (o *output) read(fd int, to *linelog.Source) (done, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, done, ended := readNow(fd, o.buffer)
	if n > 0 {
		to.Write(o.buffer[:n])
	}
	return done, ended
}

// readNow reads once from a pipe that does not block. done is false if there is nothing to read
// now, and ended is true at the end of the pipe, or when it cannot be read.
func readNow(fd int, buffer []byte) (n int, done, ended bool) {
	n, err := unix.Read(fd, buffer)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, false, false
	case errors.Is(err, unix.EINTR):
		return 0, true, false
	case err != nil || n == 0:
		return 0, true, true
	}
	return n, true, false
}

// drain waits until all pipes are read to their ends, for a limited time: a process outside may
// have been given one. What the attempt's own processes have printed is in the pipes then, and is
// read in any case, also where this process stood still for that time.
func (o *output) drain(most time.Duration) {
	done := make(chan struct{})
	go func() {
		o.all.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	for _, pipe := range o.pipes {
		o.readLeft(pipe)
		_ = pipe.Close()
	}
}

// readLeft reads what is in a pipe now, and waits for nothing more.
func (o *output) readLeft(pipe outputPipe) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // after the end there is nothing left
		full, _ := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) // its user may have made it larger
		for left := full; left >= 0; left -= pipeBytes {
			if done, ended := o.read(int(fd), pipe.to); !done || ended {
				return
			}
		}
	})
}
