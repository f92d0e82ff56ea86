package restorer

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// lingerTime is how long a restorer waits for a request for the exit status.
const lingerTime = 10 * time.Minute

// exitStatus is the root's exit status.
type exitStatus struct {
	mu     sync.Mutex
	status unix.WaitStatus
	ended  chan struct{}
	// reported is closed when a client has received the status.
	reported   chan struct{}
	reportOnce sync.Once
}

func newExitStatus() *exitStatus {
	return &exitStatus{ended: make(chan struct{}), reported: make(chan struct{})}
}

// set sets the status; only the first call has an effect.
func (e *exitStatus) set(status unix.WaitStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.ended:
	default:
		e.status = status
		close(e.ended)
	}
}

func (e *exitStatus) get() unix.WaitStatus {
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// linger waits until a client has received the status.
func (e *exitStatus) linger() {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-e.reported:
	case <-timer.C:
	}
}

// reap waits for all children, including those inherited from parents that have ended, until there
// are none.
func (s *server) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid == s.root.PID:
			s.status.set(status) // a later child may get the same pid
		}
	}
}

// answerAll answers one request per connection.
func (s *server) answerAll(listener *fdpass.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var received request
			_ = conn.Deadline(time.Now().Add(replyTimeout)) // the socket is open; a silent client times out
			files, err := conn.Receive(&received)
			if err != nil {
				return
			}
			fdpass.Close(files)
			if !s.answering.begin() {
				return
			}
			defer s.answering.end()
			reply, files := s.answer(received)
			_ = conn.Deadline(time.Now().Add(replyTimeout))
			// A client that kills the tree knows how it ends.
			if conn.Send(reply, files...) == nil && (reply.Ended || received.Kill && reply.Error == "") {
				s.status.reportOnce.Do(func() { close(s.status.reported) })
			}
		}()
	}
}

// answering counts the requests that are being answered.
type answering struct {
	mu       sync.Mutex // guards what follows
	count    int
	finished bool
	// idle is closed when there are none after finish.
	idle chan struct{}
}

// begin counts a request. It returns false when none is answered any longer.
func (a *answering) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished {
		return false
	}
	a.count++
	return true
}

// end says that a request was answered.
func (a *answering) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count--; a.finished && a.count == 0 {
		close(a.idle)
	}
}

// lastAnswers is how long a restorer without a tree goes on to answer. A client may not read.
const lastAnswers = 5 * time.Second

// finish waits until all requests are answered: one may be about why the tree was killed.
func (a *answering) finish() {
	a.mu.Lock()
	a.finished, a.idle = true, make(chan struct{})
	none := a.count == 0
	a.mu.Unlock()
	if none {
		return
	}
	select {
	case <-a.idle:
	case <-time.After(lastAnswers):
	}
}

// answer carries out a request. The answer may come with a file.
func (s *server) answer(received request) (reply answer, files []*os.File) {
	if received.Track > 0 {
		found, err := s.userfaultfds.of(received.Track)
		if err == nil {
			files = []*os.File{found}
		}
		return newAnswer(err), files
	}
	return s.answerAlone(received), nil
}

// answerAlone is answer for requests whose answer has no file.
func (s *server) answerAlone(received request) answer {
	switch {
	case received.Describe:
		return answer{
			Outside: s.order.Outside, Loading: s.loading(), Tracks: true, Uncommitted: !s.committed.Load(),
		}
	case received.Loaded:
		return s.waitLoaded()
	case received.Wait:
		return answer{Ended: true, Status: int(s.status.get()), Lost: s.whyLost()}
	case received.Forget > 0:
		s.userfaultfds.forget(received.Forget)
		return answer{}
	case received.Kill:
		return newAnswer(s.killAll())
	case received.Signal > 0:
		return newAnswer(s.signal(unix.Signal(received.Signal)))
	}
	return newAnswer(ErrOrder)
}

// signal sends a signal to the root, as far as the tree's user may do that: the root may have
// become another user since. Its pid may be another process's once it has ended.
func (s *server) signal(number unix.Signal) error {
	root, err := proc.Open(s.root)
	if err != nil {
		return err
	}
	defer root.Close()
	allowed, err := s.root.CanBeSignaledBy(s.order.User.UID)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("signal pid %d: it has become another user: %w", s.root.PID, unix.EPERM)
	}
	return root.Signal(number)
}

// copyOutput copies what the tree writes to ends without a reader into the log. The channel closes
// when all is written.
func (s *server) copyOutput() <-chan struct{} {
	done := make(chan struct{})
	s.output = newOutput(s.file(s.order.Log), s.order.LogJSON, s.root.PID, s.order.User.UID)
	var all sync.WaitGroup
	for _, index := range s.order.Drain {
		all.Go(func() { s.output.copyAll(s.files[index]) })
	}
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}
