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
	pipes []*os.File
	all   sync.WaitGroup

	mu sync.Mutex // guards buffer: one for all pipes, of which most are idle
	// buffer is as large as a pipe.
	buffer []byte
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
		o.pipes = append(o.pipes, ours)
		source := o.lines.Source(process, stream)
		o.all.Go(func() { o.copy(ours, source) })
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
func (o *output) copy(pipe *os.File, to *linelog.Source) {
	raw, err := pipe.SyscallConn()
	for ended := false; err == nil && !ended; {
		err = raw.Read(func(fd uintptr) (done bool) {
			done, ended = o.read(int(fd), to)
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
// have been given one.
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
		_ = pipe.Close()
	}
}
