package sessions

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// describeTimeout is how long a worker may take to describe its program.
	describeTimeout = time.Second
	// endTimeout is how long a worker may take to end by itself when phosd stops it, before it is
	// killed.
	endTimeout = time.Second
	// outliveTimeout is how long a worker may outlive its program before it is killed.
	outliveTimeout = endTimeout / 2
)

// Session is one program and its worker.
type Session struct {
	// record, slot, worker, program, control and reap do not change while the session is registered.
	record  rundir.Record
	slot    slot
	worker  *proc.Handle
	program *proc.Handle
	control *api.WorkerConn
	// renumbered are the GPUs whose numbers the program knows otherwise.
	renumbered map[int]int
	// controlPath is the worker's socket.
	controlPath string
	// reap returns the exit status of a worker that is phosd's own child; nil for an adopted one.
	reap func() error
	// post is how the worker has ended; see howEnded.
	post     string
	postOnce sync.Once
	// dir has the session's files.
	dir *rundir.Dir
	// since is when this phosd began to watch the session.
	since time.Time

	// ended is closed when the worker is dead and everything of the session is removed.
	ended chan struct{}
	// detached is closed when phosd ends and the session stays.
	detached   chan struct{}
	detachOnce sync.Once

	// checkpoint is nil for a program that was never saved.
	checkpoint atomic.Pointer[rundir.Checkpoint]
	// checkpoints counts the program's checkpoints in flight.
	checkpoints atomic.Int32
	// overfull is set once the session was ended because its files hold too much.
	overfull atomic.Bool
	// failure is why the program counts as failed; nil: it does not.
	failure atomic.Pointer[string]
	// described is the worker's first description; describing is set while the worker is asked for it.
	described  atomic.Pointer[api.Description]
	describing atomic.Bool
}

func newSession(dir *rundir.Dir, record rundir.Record, given slot) *Session {
	return &Session{dir: dir, record: record, slot: given, ended: make(chan struct{}), detached: make(chan struct{})}
}

// Record returns what is stored of the session, without its checkpoints; see Checkpoint.
func (s *Session) Record() rundir.Record { return s.record }

// PID returns the program's pid.
func (s *Session) PID() int { return s.record.Program.PID }

// Worker returns the connection to the worker.
func (s *Session) Worker() api.WorkerClient { return s.control.Worker }

// ControlPath returns the path of the worker's socket.
func (s *Session) ControlPath() string { return s.controlPath }

// Since returns when this phosd began to watch the session.
func (s *Session) Since() time.Time { return s.since }

// Ended is closed when the session has ended.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// ProgramEnded reports whether the program has ended.
func (s *Session) ProgramEnded() bool { return s.program.Ended() }

// Rights returns the rights that the program has to files: those that it had when it connected. A
// process that it becomes later, for example a setuid program, may have other groups.
func (s *Session) Rights() (fsuid.Rights, error) {
	groups := s.record.Groups
	if groups == nil { // the session was started by an older version
		var err error
		if groups, err = s.program.Groups(); err != nil {
			return fsuid.Rights{}, err
		}
	}
	return fsuid.Rights{UID: s.record.Owner.UID, GID: s.record.Owner.GID, Groups: groups}, nil
}

// known returns groups as a record has them: not nil.
func known(groups []uint32) []uint32 { return append([]uint32{}, groups...) }

// Checkpoint returns what became of the program's checkpoints; nil if it was never saved.
func (s *Session) Checkpoint() *rundir.Checkpoint { return s.checkpoint.Load() }

// BeginCheckpoint counts a checkpoint in flight until end is called.
func (s *Session) BeginCheckpoint() (end func()) {
	s.checkpoints.Add(1)
	return func() { s.checkpoints.Add(-1) }
}

// CheckpointRunning reports whether a checkpoint of the program is in flight.
func (s *Session) CheckpointRunning() bool { return s.checkpoints.Load() > 0 }

// Failure returns why the program counts as failed; "" if it does not.
func (s *Session) Failure() string {
	if failure := s.failure.Load(); failure != nil {
		return *failure
	}
	return ""
}

// Describe asks the worker for a description; nil if the worker does not answer in time.
func (s *Session) Describe(ctx context.Context) *api.Description {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	description, err := s.control.Worker.Describe(ctx, &api.DescribeRequest{})
	if err != nil {
		return nil
	}
	return description
}

// Settings returns the worker's first description; nil if it has not answered yet. It holds what
// does not change in a program's life: policy, job name and rank.
func (s *Session) Settings() *api.Description { return s.described.Load() }

// AwaitSettings returns Settings, and asks the worker if it has not answered yet.
func (s *Session) AwaitSettings(ctx context.Context) *api.Description {
	if known := s.Settings(); known != nil {
		return known
	}
	if description := s.Describe(ctx); description != nil {
		s.described.Store(description)
	}
	return s.Settings()
}

// end stops the worker, by force if it does not end itself in time, and waits until everything of
// the session is removed.
func (s *Session) end(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if _, err := s.control.Worker.Stop(ctx, &api.WorkerStopRequest{Reason: reason}); err == nil {
		select {
		case <-s.ended:
			return
		case <-ctx.Done():
		}
	}
	s.kill()
	<-s.ended
}

// kill kills the worker. It may have exited already.
func (s *Session) kill() { _ = s.worker.Signal(unix.SIGKILL) }

// detach stops watching the session and leaves its worker alone.
func (s *Session) detach() {
	s.detachOnce.Do(func() {
		close(s.detached)
		_ = s.worker.Close()
		_ = s.program.Close()
		_ = s.control.Close()
	})
}
