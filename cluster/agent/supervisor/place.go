package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// placeName is the cgroup of all supervisors, beside those of their attempts: not the agent's,
// which may be limited and killed.
const placeName = "supervisors"

// errKilledBefore means that the kernel kills what is started from this cgroup in another one.
var errKilledBefore = errors.New("the kernel kills processes that are started from a cgroup that was killed once")

// placeTries is how often another cgroup is tried. Other supervisors may try at the same time.
const placeTries = 8

// checkPlace makes sure that this process can start others in the attempt's cgroup. The kernel
// takes tens of milliseconds to move a process, so it is moved now only if it must be.
func (s *supervisor) checkPlace() error {
	err := tryStart(s.group.FD())
	if errors.Is(err, errKilledBefore) {
		s.log.Warn("agent's cgroup was killed once", "error", err)
		return s.replacePlace()
	}
	return err
}

// place returns the directory of the cgroup of supervisors.
func (s *supervisor) place() (string, error) {
	top, err := cgroup.Top()
	return filepath.Join(top, s.order.CgroupParent, placeName), err
}

// moveOut moves this process into the cgroup of supervisors. Commands are started from there later.
func (s *supervisor) moveOut() error {
	place, err := s.place()
	if err != nil {
		return err
	}
	before, err := cgroup.Of(os.Getpid())
	if err != nil {
		return err
	}
	if err := moveTo(place); err != nil {
		return err
	}
	if !errors.Is(tryStart(s.group.FD()), errKilledBefore) {
		return nil // another error means that the attempt has ended
	}
	if err := moveTo(before); err != nil {
		return err
	}
	return s.replacePlace()
}

// replacePlace moves this process into the cgroup of supervisors, and makes sure that it can start
// others from there. If that cgroup was killed once, it is removed and made again. While other
// supervisors are in it, this one stays where it is.
func (s *supervisor) replacePlace() error {
	place, err := s.place()
	if err != nil {
		return err
	}
	before, err := cgroup.Of(os.Getpid())
	if err != nil {
		return err
	}
	for range placeTries {
		if err = moveTo(place); err == nil {
			err = tryStart(s.group.FD())
		}
		if !errors.Is(err, errKilledBefore) && !cgroup.Removed(err) {
			return err
		}
		if err := moveTo(before); err != nil {
			return err
		}
		_ = unix.Rmdir(place) // another supervisor may be inside, or have removed it
	}
	return err
}

// moveTo moves this process into a cgroup, which is made if it is not there.
func moveTo(directory string) error {
	if err := os.Mkdir(directory, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// "0" is the writer. A pid could be of another namespace.
	if err := cgroup.Write(directory, "cgroup.procs", strconv.Itoa(0)); err != nil {
		return fmt.Errorf("move to cgroup %s: %w", directory, err)
	}
	return nil
}

// tryStart starts a process that does not exist in a cgroup. From Linux 6.14 on the kernel compares
// how often two cgroups were killed: the new process's, and by mistake that of the process that
// starts it.
func tryStart(into int) error {
	pid, err := syscall.ForkExec("/dev/null/none", []string{"none"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: into},
	})
	if errors.Is(err, unix.ENOTDIR) {
		return nil // it lived until it had no program
	}
	if err != nil {
		return fmt.Errorf("start a process in a cgroup: %w", err)
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return errors.Join(errKilledBefore, err)
		}
	}
}
