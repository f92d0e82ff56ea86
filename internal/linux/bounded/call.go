// Package bounded makes calls that may hang in the kernel: a dead mount of NFS or FUSE does not
// answer at all. A caller waits for a limited time, and only so many threads wait for longer.
package bounded

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrSilent describes a file whose file system does not answer.
var ErrSilent = errors.New("lies on a file system that does not respond (a dead mount of NFS or FUSE?)")

// FileTime is how long the kernel may take to look at a file.
const FileTime = 20 * time.Second

// maxStuck is an upper bound for calls of one user that have not returned in time. Each of them
// keeps a thread until its file system answers.
const maxStuck = 64

// FullError is returned when so many calls of a user hang that no more are made.
type FullError struct {
	UID uint32
	// Stuck is how many of the user's calls hang, Limit how many may.
	Stuck, Limit int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("is not looked at: %d files and processes of user %d do not respond, and phos waits for at most %d "+
		"(a dead mount of NFS or FUSE? unmount it)", e.Stuck, e.UID, e.Limit)
}

// Question is what a call asks for: a path or a process, and its user.
type Question struct {
	UID uint32
	Of  any
}

// stuck has the calls that have not returned in time.
var stuck = struct {
	sync.Mutex
	questions map[Question]bool
	users     map[uint32]int
}{questions: make(map[Question]bool), users: make(map[uint32]int)}

// refused returns the error for a question that is not asked.
func refused(q Question) error {
	stuck.Lock()
	defer stuck.Unlock()
	if stuck.questions[q] {
		return ErrSilent
	}
	if n := stuck.users[q.UID]; n >= maxStuck {
		return &FullError{UID: q.UID, Stuck: n, Limit: maxStuck}
	}
	return nil
}

// Call returns the result of look, which may hang in the kernel. The error is ErrSilent if it takes
// longer than limit, or at once if such a call hangs already; it is a *FullError if too many others
// of the user hang. look then goes on alone, so it must not change anything that is used elsewhere.
func Call[T any](q Question, limit time.Duration, look func() T) (got T, err error) {
	if err := refused(q); err != nil {
		return got, err
	}
	answered := make(chan T, 1)
	late, done := false, false // guarded by stuck
	go func() {
		result := look()
		stuck.Lock()
		defer stuck.Unlock()
		if done = true; late {
			delete(stuck.questions, q)
			stuck.users[q.UID]--
		}
		answered <- result
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got = <-answered:
		return got, nil
	case <-timer.C:
	}
	stuck.Lock()
	defer stuck.Unlock()
	if done {
		return <-answered, nil
	}
	if late = !stuck.questions[q]; late {
		stuck.questions[q] = true
		stuck.users[q.UID]++
	}
	return got, ErrSilent
}

// Stuck returns how many calls of a user hang.
func Stuck(uid uint32) int {
	stuck.Lock()
	defer stuck.Unlock()
	return stuck.users[uid]
}
