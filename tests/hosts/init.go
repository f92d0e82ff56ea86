package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	_ "embed" // of the script

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/tests/harness"
)

//go:embed init.sh
var initScript string

// pidsPerHost is the distance between the pids of two hosts. An image can be restored where its
// pids are free. Nine hosts fit below 32768, which is the largest pid of many machines.
const pidsPerHost = 3000

// initProcess is the first process of a host. The kernel kills all others with it.
type initProcess struct {
	pid, pidfd int
	// root is its root directory, which is not that of its mount namespace in a chroot.
	root *os.File
	// input is the writing end of its standard input.
	input *os.File
	// old are the host's cgroups of version 1, which processes enter before they start.
	old []string
	// timed is set if the host has a time namespace.
	timed bool
	ended chan struct{}
}

// startInit starts the first process of a host, in its groups and namespaces. log is the file of
// its standard error.
func startInit(own groups, number int, clocks Clocks, log *os.File) (*initProcess, error) {
	input, output, err := pipes()
	if err != nil {
		return nil, err
	}
	defer input.theirs.Close()
	defer output.theirs.Close()
	defer output.ours.Close()
	arguments := append([]string{"-c", initScript, "init.sh", strconv.Itoa(1000 + number*pidsPerHost)}, clocks.flags()...)
	command := exec.Command("bash", arguments...)
	command.Stdin, command.Stdout, command.Stderr = input.theirs, output.theirs, log
	group, err := os.Open(own.unified)
	if err != nil {
		return nil, errors.Join(err, input.ours.Close())
	}
	defer group.Close()
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UseCgroupFD: true, CgroupFD: int(group.Fd()), Setsid: true, Pdeathsig: unix.SIGKILL,
	}
	i := &initProcess{input: input.ours, old: own.old, timed: len(clocks.flags()) > 0, ended: make(chan struct{})}
	if err := i.start(command); err != nil {
		return nil, errors.Join(err, input.ours.Close())
	}
	if err := i.settle(own, output.ours); err != nil {
		i.kill()
		return nil, err
	}
	return i, nil
}

// start starts the process on a thread that lives as long: the kernel kills the process when the
// thread that started it ends.
func (i *initProcess) start(command *exec.Cmd) error {
	started := make(chan error, 1)
	onThread(func() {
		err := command.Start()
		if err == nil {
			i.pid = command.Process.Pid
			i.pidfd, err = unix.PidfdOpen(i.pid, 0)
		}
		started <- err
		if err == nil {
			_ = command.Wait()
			close(i.ended)
		}
	})
	return <-started
}

// settle puts the process into its cgroups and waits until it is ready for others.
func (i *initProcess) settle(own groups, output *os.File) error {
	for _, each := range own.old {
		if err := cgroup.Put(each, i.pid); err != nil {
			return err
		}
	}
	if _, err := i.input.WriteString("\n"); err != nil {
		return err
	}
	err := output.SetReadDeadline(time.Now().Add(harness.Patience))
	if err != nil {
		return err
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("init is not ready: %q: %w", line, err)
	}
	i.root, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", i.pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	return errors.Join(err, cgroup.Put(own.unified+"/"+first, i.pid))
}

// kill kills the process, and with it all of the host, and waits until none is left. The caller
// waits for those that it has started: init ends last.
func (i *initProcess) kill() {
	_ = unix.PidfdSendSignal(i.pidfd, unix.SIGKILL, nil, 0)
	<-i.ended
	_ = unix.Close(i.pidfd)
	_, _ = i.input.Close(), i.root.Close()
}

// end is a pipe: our end, and that of a process to be started.
type end struct{ ours, theirs *os.File }

// pipes makes the pipes for standard input and output.
func pipes() (input, output end, err error) {
	if input.theirs, input.ours, err = os.Pipe(); err != nil {
		return input, output, err
	}
	if output.ours, output.theirs, err = os.Pipe(); err != nil {
		_, _ = input.theirs.Close(), input.ours.Close()
	}
	return input, output, err
}
