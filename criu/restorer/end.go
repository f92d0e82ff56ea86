package restorer

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// lingering is how long a keeper waits for somebody to ask how the tree has ended.
const lingering = 10 * time.Minute

// end is how the root has ended.
type end struct {
	mu     sync.Mutex
	status unix.WaitStatus
	ended  chan struct{}
	// told is closed when somebody knows.
	told     chan struct{}
	tellOnce sync.Once
}

func newEnd() *end { return &end{ended: make(chan struct{}), told: make(chan struct{})} }

func (e *end) set(status unix.WaitStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
	close(e.ended)
}

func (e *end) get() unix.WaitStatus {
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// linger waits until the end has been told.
func (e *end) linger() {
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-e.told:
	case <-timer.C:
	}
}

// reap buries all children, those too that were left to the keeper by parents who died, until there
// are none.
func (k *keeper) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid == k.root.PID:
			k.end.set(status)
		}
	}
}

// answerAll serves those who come by the socket: one request each.
func (k *keeper) answerAll(listener *fdpass.Listening) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var asked request
			_ = conn.Deadline(time.Now().Add(patience)) // of a socket that is open; who says nothing is left
			files, err := conn.Receive(&asked)
			if err != nil {
				return
			}
			fdpass.Close(files)
			said := k.answer(asked)
			_ = conn.Deadline(time.Now().Add(patience))
			// Who has it killed knows how it ends.
			if conn.Send(said) == nil && (said.Ended || asked.Kill && said.Error == "") {
				k.end.tellOnce.Do(func() { close(k.end.told) })
			}
		}()
	}
}

func (k *keeper) answer(asked request) answer {
	switch {
	case asked.Describe:
		return answer{Outside: k.order.Outside}
	case asked.Wait:
		return answer{Ended: true, Status: int(k.end.get())}
	case asked.Kill:
		return newAnswer(k.killAll())
	case asked.Signal > 0:
		return newAnswer(unix.Kill(k.root.PID, unix.Signal(asked.Signal)))
	}
	return newAnswer(ErrOrder)
}

// drain copies what the tree writes to ends that nobody has taken into the log. The channel closes
// when all is written.
func (k *keeper) drain() <-chan struct{} {
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, index := range k.order.Drain {
		all.Go(func() { pour(k.files[index], k.file(k.order.Log)) })
	}
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

func pour(from, to *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && to != nil {
			// A full disk must not stop the program.
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}
