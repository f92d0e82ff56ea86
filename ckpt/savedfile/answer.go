package savedfile

import (
	"sync"
	"time"
)

// Times in which the kernel must answer. A dead mount of NFS or FUSE does not answer at all.
const (
	// fileTime is for a file, plus a second for each slowestRate bytes that are read.
	fileTime    = 20 * time.Second
	slowestRate = 4 << 20
	// processTime is for a process, and processesTime for all that take long, together. After that
	// each has shortestTime.
	processTime   = 2 * time.Second
	processesTime = 10 * time.Second
	shortestTime  = 50 * time.Millisecond
)

// maxStuck is an upper bound for calls of one user that have not returned in time. Each of them
// keeps a thread until its file system answers.
const maxStuck = 64

// question is what a call asks for: a path or a process, and the user to whom it belongs.
type question struct {
	uid uint32
	of  any
}

// stuck has the calls that have not returned in time.
var stuck = struct {
	sync.Mutex
	questions map[question]bool
	users     map[uint32]int
}{questions: make(map[question]bool), users: make(map[uint32]int)}

// answer returns the result of look, which may hang in the kernel. ok is false if it takes longer
// than limit, or at once if such a call hangs already. look then goes on alone, so it must not
// change anything that is used elsewhere.
func answer[T any](q question, limit time.Duration, look func() T) (got T, ok bool) {
	stuck.Lock()
	known := stuck.questions[q] || stuck.users[q.uid] >= maxStuck
	stuck.Unlock()
	if known {
		return got, false
	}
	answered := make(chan T, 1)
	late, done := false, false // guarded by stuck
	go func() {
		result := look()
		stuck.Lock()
		defer stuck.Unlock()
		if done = true; late {
			delete(stuck.questions, q)
			stuck.users[q.uid]--
		}
		answered <- result
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got = <-answered:
		return got, true
	case <-timer.C:
	}
	stuck.Lock()
	defer stuck.Unlock()
	if done {
		return <-answered, true
	}
	if late = !stuck.questions[q]; late {
		stuck.questions[q] = true
		stuck.users[q.uid]++
	}
	return got, false
}
