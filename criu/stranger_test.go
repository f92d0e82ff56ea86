package criu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// withPID starts a process with a given pid. It is no leader of a session, like the processes of a
// tree.
const withPID = `
import os, sys, time
want = int(sys.argv[1])
while True:
    with open('/proc/sys/kernel/ns_last_pid', 'w') as last: last.write(str(want - 1))
    kid = os.fork()
    if not kid:
        if os.getpid() == want: time.sleep(1000)
        os._exit(0)
    if kid == want: time.sleep(1000)
    os.wait()
`

// fakeCRIU waits for a file and then kills the restorer.
const fakeCRIU = `#!/bin/sh
touch %[1]s/started
while [ ! -e %[1]s/go ]; do sleep 0.01; done
kill -9 $PPID
`

// TestStrangerSurvivesFailedRestore: a restorer is killed, and a process of another tree has got a
// pid of the image since the restore began. Cleaning up must not touch it.
func TestStrangerSurvivesFailedRestore(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), "say('here'); time.sleep(1000)"))
	s.says("here")
	saved := s.save(cpu, true)
	dir := t.TempDir()
	program := filepath.Join(dir, "criu")
	if err := os.WriteFile(program, fmt.Appendf(nil, fakeCRIU, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	options := cpu.options
	options.Program = program
	failed := make(chan error, 1)
	go func() {
		_, err := New(options).Restore(within(t), saved.order(t))
		failed <- err
	}()
	eventually(t, "CRIU has started", func() bool { return exists(filepath.Join(dir, "started")) })
	stranger := startWithPID(t, s.root.PID)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("a restore whose restorer was killed succeeded")
	}
	if ended(stranger) {
		t.Error("a stranger's process was killed")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// startWithPID starts a process with this pid, whose parent is init.
func startWithPID(t *testing.T, pid int) proc.Identity {
	t.Helper()
	command := exec.Command("setsid", "--fork", "python3", "-c", withPID, strconv.Itoa(pid))
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	var id proc.Identity
	eventually(t, "a process has the pid", func() bool {
		var err error
		id, err = proc.Of(pid)
		return err == nil
	})
	parent := proc.Parent(pid)
	if err := unix.Kill(parent, unix.SIGKILL); err != nil { // now init is its parent
		t.Fatal(err)
	}
	eventually(t, "its parent is another process", func() bool { return proc.Parent(pid) != parent })
	return id
}
