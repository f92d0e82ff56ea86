package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// grace is the time that processes have to end by themselves. It can only become shorter.
type grace struct {
	over   context.Context
	cancel context.CancelFunc

	mu    sync.Mutex // guards timer and until
	timer *time.Timer
	until time.Time
}

func newGrace() *grace {
	g := &grace{}
	g.over, g.cancel = context.WithCancel(context.Background())
	return g
}

// shorten lets the grace end after a time, unless it ends before that.
func (g *grace) shorten(after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := time.Now().Add(after)
	switch {
	case after <= 0:
		g.cancel()
	case g.timer == nil:
		g.timer, g.until = time.AfterFunc(after, g.cancel), until
	case until.Before(g.until):
		g.timer.Reset(after)
		g.until = until
	}
}

// decide ends the attempt if a process has failed, or all have succeeded.
func (s *supervisor) decide() {
	status, _ := s.course.now()
	completed := true
	for _, each := range status.Processes {
		completed = completed && each.Exit != nil && each.Exit.OK()
		if each.Exit != nil && !each.Exit.OK() && !each.Exit.Stopped {
			s.end(Failed, s.order.Grace, describe(*each.Exit))
			return
		}
	}
	if completed {
		s.end(Completed, s.order.Grace, "")
	}
}

// describe says how a process has ended.
func describe(e launch.Exit) string { return fmt.Sprintf("process %d %s", e.Process, e) }

// end begins to end the attempt; the first reason counts. Later calls can only shorten the grace.
func (s *supervisor) end(reason Reason, after time.Duration, detail string) {
	first := false
	s.course.change(func(status *Status) {
		if first = status.State == Starting || status.State == Running; first {
			status.State, status.Reason, status.Detail = Ending, reason, detail
		}
	})
	s.grace.shorten(after)
	if first {
		s.log.Info("attempt ends", "reason", string(reason), "detail", detail, "grace", after)
		go s.finish()
	}
}

// killNow ends the attempt without a grace.
func (s *supervisor) killNow(reason Reason, detail string) error {
	s.killing.Store(true)
	s.end(reason, 0, detail)
	return s.group.Kill()
}

const (
	// drainTime is how long to wait for output that a process outside the cgroup may still write.
	drainTime = 2 * time.Second
	// lookTime is the time between two looks at processes that cannot be killed.
	lookTime = time.Second
	// recordTime is how long writing the end may take before it is told all the same.
	recordTime = 2 * time.Second
)

// finish ends all processes of the cgroup, and notes the end.
func (s *supervisor) finish() {
	s.terminate()
	if err := s.group.Await(s.grace.over); err != nil {
		if !errors.Is(err, procgroup.ErrNotEmpty) {
			s.log.Error("cgroup not watched", "error", err)
		}
		s.killAll()
	}
	if _, ended := s.course.await(s.grace.over.Done(), allEnded); !ended {
		s.killAll() // root may have moved one out of the cgroup
	}
	s.course.await(nil, allEnded)
	s.closeLog()
	removal, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	if err := s.group.Remove(removal); err != nil {
		s.log.Error("cgroup not removed", "error", err)
	}
	s.course.change(func(status *Status) {
		status.State, status.Ended, status.Blocked = Ended, time.Now(), ""
	})
	s.publish()
}

// closeLog ends the log. It does not wait long for a disk that does not answer.
func (s *supervisor) closeLog() {
	closed := make(chan error, 1)
	go func() {
		s.output.drain(drainTime)
		closed <- s.lines.Close()
	}()
	select {
	case err := <-closed:
		if err != nil {
			s.log.Error("log incomplete", "error", err)
		}
	case <-time.After(recordTime):
		s.log.Error("log not ended yet")
	}
}

// allEnded reports whether it is known how each process has ended.
func allEnded(status *Status) bool { return len(status.Exits()) == len(status.Processes) }

// terminate asks all processes to end, once all are started. Stopped ones are continued, so that
// they can.
func (s *supervisor) terminate() {
	select {
	case <-s.children.started:
	case <-s.grace.over.Done():
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if s.grace.over.Err() != nil {
			return
		}
		if err := s.group.Signal(signal); err != nil {
			s.log.Error("signal not sent", "signal", int(signal), "error", err)
		}
	}
}

// killAll kills until no process is left, and none will be started.
func (s *supervisor) killAll() {
	s.killing.Store(true)
	for {
		look, cancel := context.WithTimeout(context.Background(), lookTime)
		err := s.group.KillAll(look)
		cancel()
		blocked := ""
		if err != nil {
			blocked = err.Error()
		}
		s.course.change(func(status *Status) { status.Blocked = blocked })
		s.children.kill() // may wait for one that is being started
		if err == nil {
			select {
			case <-s.children.started:
				return
			case <-time.After(retryTime):
			}
		}
	}
}

// publish waits until the end is recorded, tells it, and lets the supervisor exit. Where a disk
// does not answer, the end is told before, and the supervisor stays until it is recorded.
func (s *supervisor) publish() {
	select {
	case <-s.recorded:
	case <-time.After(recordTime):
		s.log.Warn("end not recorded yet")
	}
	close(s.published)
	<-s.recorded
	close(s.done)
}
