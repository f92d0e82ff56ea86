package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// supervisor is the process that Main is.
type supervisor struct {
	dir string
	// locked is the run directory. The lock ends with this process.
	locked *os.File
	order  order
	log    *slog.Logger
	null   *os.File

	group    *procgroup.Group
	lines    *linelog.Writer
	output   *output
	fence    *fence
	course   *course
	children *children
	grace    *grace
	execs    *execs

	// killing is set before this process sends SIGKILL, by a goroutine that then calls end.
	killing atomic.Bool
	// recorded is closed when the end is in status.json, published when it may be told, done when the
	// process may exit.
	recorded, published, done chan struct{}
}

// Main is the main function of a supervisor, which Start executes. The arguments are those after
// Role. It returns the exit status.
func Main(arguments []string) int {
	flags := flag.NewFlagSet(Role, flag.ContinueOnError)
	dir := flags.String("dir", "", "the run directory of the attempt, which is inherited locked")
	if err := flags.Parse(arguments); err != nil || *dir == "" || !inherited() {
		fmt.Fprintf(os.Stderr, "%s %s: the agent starts supervisors, with files that they inherit\n", os.Args[0], Role)
		return 2
	}
	log := newLog()
	becomeSupervisor(log)
	ready := os.NewFile(readyFD, "ready")
	s := &supervisor{
		dir: *dir, locked: os.NewFile(lockFD, *dir), log: log, children: newChildren(), grace: newGrace(), execs: newExecs(),
		recorded: make(chan struct{}), published: make(chan struct{}), done: make(chan struct{}),
	}
	err := s.prepare()
	// If the agent is gone, the next one adopts this process.
	_ = errors.Join(json.NewEncoder(ready).Encode(newReadiness(err)), ready.Close())
	if err != nil {
		return 1 // which the agent tells
	}
	s.course.await(s.done, func(status *Status) bool { return status.State != Starting })
	debug.SetGCPercent(garbagePercent)
	<-s.done
	return 0
}

// garbagePercent is by how much the memory of a supervisor grows before it collects garbage.
const garbagePercent = 25

// inherited reports whether the descriptors are there that Start passes on.
func inherited() bool {
	var dir, pipe unix.Stat_t
	return unix.Fstat(lockFD, &dir) == nil && dir.Mode&unix.S_IFMT == unix.S_IFDIR &&
		unix.Fstat(readyFD, &pipe) == nil && pipe.Mode&unix.S_IFMT == unix.S_IFIFO
}

// prepare does all that may fail, and then begins to start the processes. If it fails, nothing is
// left outside the run directory.
func (s *supervisor) prepare() (err error) {
	if err := readJSON(s.dir, orderName, &s.order); err != nil {
		return err
	}
	if s.order.Version != version {
		return fmt.Errorf("%w: order of version %d; this supervisor knows %d", ErrInvalid, s.order.Version, version)
	}
	if s.null, err = os.Open(os.DevNull); err != nil {
		return err
	}
	if s.group, err = procgroup.Create(s.order.Cgroup, s.order.Limits); err != nil {
		return err
	}
	err = s.checkPlace()
	if err == nil {
		err = s.prepareInside()
	}
	if err != nil {
		removal, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		return errors.Join(err, s.group.Remove(removal))
	}
	return nil
}

// prepareInside does what needs the cgroup.
func (s *supervisor) prepareInside() (err error) {
	if s.lines, err = linelog.Create(filepath.Join(s.dir, logName), s.order.Log); err != nil {
		return err
	}
	s.output = newOutput(s.lines)
	if err := s.note(); err != nil {
		return err
	}
	if err := s.raiseFence(); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	s.reap()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	go s.stopOnSignal(stop)
	go s.recordAll()
	return s.begin()
}

// note makes the first Status, by which agents find this process.
func (s *supervisor) note() error {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return err
	}
	s.course = newCourse(Status{
		Key: s.order.Key, Epoch: s.order.Epoch, State: Starting, BootID: s.order.BootID, Supervisor: self,
		Cgroup: s.order.Cgroup, Processes: make([]ProcessStatus, len(s.order.Processes)), Started: time.Now(),
	})
	status, _ := s.course.now()
	return writeJSON(s.dir, statusName, status, fast)
}

// raiseFence arms the deadline, after a rehearsal.
func (s *supervisor) raiseFence() error {
	if err := s.group.Rehearse(); err != nil {
		return err
	}
	fence, err := newFence(s.order.Deadline, func() error {
		s.killing.Store(true) // so that what the processes die of is known
		return s.group.Kill()
	})
	if err != nil {
		return err
	}
	s.fence = fence
	go fence.watch(func(err error) {
		if err != nil {
			s.log.Error("deadline passed, not all killed", "error", err)
		}
		s.end(Fenced, 0, "the deadline passed")
	})
	return nil
}

// recordAll writes each Status to the run directory, the last one so that it survives a power cut.
func (s *supervisor) recordAll() {
	for failed := false; ; {
		status, next := s.course.now()
		last := status.State == Ended
		err := writeJSON(s.dir, statusName, status, durability(last))
		if last && (err == nil || errors.Is(err, fs.ErrNotExist)) { // an agent that has read it may remove all
			close(s.recorded)
			return
		}
		if err == nil {
			failed = false
			<-next
			continue
		}
		if !failed { // once: the log is on the same disk
			s.log.Error("status not written", "error", err)
		}
		failed = true
		<-time.After(lookTime)
	}
}
