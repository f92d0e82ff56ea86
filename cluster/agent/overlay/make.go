package overlay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Role is the argument with which the agent's program calls Main.
const Role = "network"

// makeTime is how long a namespace may take to be made: its owner may stop what makes it.
const makeTime = 10 * time.Second

// newNamespace makes a network namespace that belongs to a user namespace of a user. All that is
// ever in it, or is the user's and makes it, has nothing of root's: the user may stop, trace and
// kill it.
func newNamespace(ctx context.Context, of saver.Owner) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	command := of.Command(ctx, Role)
	command.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // some hosts allow user namespaces only with it
	var problems strings.Builder
	command.Stderr = &problems
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	space, err := openMade(out, of.UID)
	stop()
	_ = in.Close()
	ended := command.Wait()
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %.500s", err, errors.Join(ctx.Err(), ended), problems.String())
	}
	return space, nil
}

// openMade opens the namespace of the process that a line names. Another process may have the pid
// by then: what is opened must belong to the user.
func openMade(said io.Reader, uid uint32) (*os.File, error) {
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return nil, errors.New("nothing was made")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("pid %.20q", line)
	}
	space, err := proc.OpenNamespace(pid, "net")
	if err != nil {
		return nil, err
	}
	if owner, err := proc.OwnerOf(space); err != nil || owner != uid {
		return nil, errors.Join(fmt.Errorf("pid %d is in a network of user %d", pid, owner), err, space.Close())
	}
	return space, nil
}

// Main is the main function of what makes a namespace, as its owner. It returns the exit status.
func Main() int {
	if err := holdNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "network namespace:", err)
		return 1
	}
	return 0
}

// holdNamespace starts a process in new namespaces, names it, and ends it when the agent says so.
func holdNamespace() error {
	holder := exec.Command("/bin/cat")
	holder.Dir, holder.Env = "/", []string{}
	holder.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	in, err := holder.StdinPipe()
	if err != nil {
		return err
	}
	if err := holder.Start(); err != nil {
		return err
	}
	_, err = fmt.Println(holder.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the agent has opened it
	return errors.Join(err, in.Close(), holder.Wait())
}
