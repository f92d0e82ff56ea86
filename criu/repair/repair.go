package repair

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrEnded is returned when a process did not survive CRIU's death.
var ErrEnded = errors.New("process ended inside CRIU's code")

// parasiteMask is the signal mask that CRIU sets while its code runs: all but SIGTRAP and those
// that cannot be blocked.
const parasiteMask = ^uint64(1<<(unix.SIGTRAP-1) | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1))

// Repair restores what CRIU has changed. The processes must be frozen and not Inside.
func (s *Snapshot) Repair() error {
	var failures []error
	for _, p := range s.processes {
		if err := p.repair(); err != nil {
			failures = append(failures, fmt.Errorf("pid %d: %w", p.PID, err))
		}
	}
	return errors.Join(failures...)
}

// WithoutEnded returns the snapshot without processes that have ended.
func (s *Snapshot) WithoutEnded() *Snapshot {
	return &Snapshot{slices.DeleteFunc(slices.Clone(s.processes), func(p processSnapshot) bool {
		_, zombie := p.Zombie()
		return zombie || p.Gone()
	})}
}

// repair restores the code and signal state of a process, or returns ErrEnded if it has exited.
func (p *processSnapshot) repair() error {
	stat, err := proc.ReadStat(p.PID)
	if proc.Gone(err) || err == nil && (stat.Identity != p.Identity || stat.Zombie()) {
		return ErrEnded
	}
	if err != nil {
		return err
	}
	if err := p.repairCode(); err != nil {
		return err
	}
	threads, err := proc.Threads(p.PID)
	if err != nil {
		return err
	}
	for _, thread := range threads {
		if err := p.repairSignals(thread); err != nil {
			return fmt.Errorf("thread %d: %w", thread, err)
		}
	}
	return nil
}

// repairCode restores the program's code.
func (p *processSnapshot) repairCode() error {
	found := make([]byte, len(p.Code))
	return p.withMemory(os.O_RDWR, func(memory *os.File) (int, error) {
		if n, err := memory.ReadAt(found, int64(p.Start)); err != nil || bytes.Equal(found, p.Code) {
			return n, err
		}
		return memory.WriteAt(p.Code, int64(p.Start))
	})
}

// repairSignals restores the signal mask of a thread.
func (p *processSnapshot) repairSignals(thread int) error {
	before, ok := p.Blocked[thread]
	if !ok || before == parasiteMask {
		return nil
	}
	status, err := proc.ReadThreadStatus(p.PID, thread)
	if proc.Gone(err) || err == nil && status.Blocked != parasiteMask {
		return nil
	}
	if err != nil {
		return err
	}
	return whileStopped(thread, func() error { return setBlocked(thread, before) })
}

// whileStopped calls do while ptrace has stopped the thread.
func whileStopped(thread int, do func() error) error {
	// A tracer is a thread, not a process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(thread); err != nil {
		return fmt.Errorf("seize: %w", err)
	}
	defer func() { _ = unix.PtraceDetach(thread) }()
	if err := unix.PtraceInterrupt(thread); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(thread, &status, unix.WALL, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait: %w", err)
		}
	}
	if !status.Stopped() {
		return ErrEnded
	}
	return do()
}
