package hostile

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// restoreAndDesert hands off the image DIR, and leaves the restore to a child. It ends once the
// file LEAVE exists. The child asks at once; if WHEN is "late", it only opens the stream, and sends
// its first command when this process has ended.
func restoreAndDesert(arguments []string) error {
	dir, err := os.Open(arguments[0])
	if err != nil {
		return err
	}
	connection, err := connect()
	if err != nil {
		return err
	}
	token, err := fdtoken.Send(context.Background(), api.Socket(), []*os.File{dir})
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe", strconv.Itoa(os.Getpid()), hex.EncodeToString(token), arguments[2])
	child.Env = append(os.Environ(), intruderVariable+"=restore-deserted")
	child.ExtraFiles, child.Stdout = []*os.File{connection}, os.Stdout
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // else this process's pid would stay in use
	if err := child.Start(); err != nil {
		return err
	}
	await(func() bool { return exists(arguments[1]) })
	return nil
}

// restoreDeserted is the child of restoreAndDesert, PARENT, with its TOKEN and WHEN.
func restoreDeserted(arguments []string) error {
	conn, err := inheritedClient()
	if err != nil {
		return err
	}
	token, err := hex.DecodeString(arguments[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	client := api.NewDaemonClient(conn)
	stream, err := client.Restore(ctx)
	if err == nil {
		_, err = client.Status(ctx, &api.StatusRequest{})
	}
	if err != nil {
		return err
	}
	fmt.Println("asked")
	if arguments[2] == "late" {
		await(func() bool { return strconv.Itoa(os.Getppid()) != arguments[0] })
	}
	return followRestore(stream, &api.RestoreBegin{Files: token, Detach: true})
}

// Ways in which a caller ends.
const (
	reaped      = "reaped"
	zombie      = "zombie" // its parent does not ask how it ended
	inContainer = "with its container"
)

// TestCallerInContainerEnds: a process in a container connects, and its child asks for a restore on
// the connection. phosd holds the restore at some step, and the process ends, or the whole
// container. Nothing comes back, neither in the container nor outside, where phosd is.
func TestCallerInContainerEnds(t *testing.T) {
	for _, test := range []struct {
		step string // where phosd waits; if it is empty, phosd waits for the first command
		ends string
	}{
		{"", reaped},
		{"prepare", reaped},
		{"workers", reaped},
		{"processes", reaped},
		{"", zombie},
		{"processes", zombie},
		{"prepare", inContainer},
		{"processes", inContainer},
		{"attach", inContainer},
	} {
		t.Run(fmt.Sprint(test.step, " ", test.ends), func(t *testing.T) {
			s := newDesertion(t, test.step, test.ends)
			s.end(test.ends)
			s.proceed()
			if test.ends != inContainer {
				waitFor(t, "the restore is answered", func() bool { return strings.Contains(s.text(), "restore: ") })
			}
			if text := s.text(); strings.Contains(text, "running") ||
				test.ends != inContainer && !strings.Contains(text, "has ended") {
				t.Fatalf("the deserted restore said %q", text)
			}
			s.d.LogContains("restore failed")
			s.d.Eventually("nothing is left of the program", func() bool {
				return !running(deserted) && len(s.d.Status().GetPrograms()) == 0
			})
		})
	}
}

// TestCallerInContainerStays is the same without the attack: the program runs in the container.
func TestCallerInContainerStays(t *testing.T) {
	s := newDesertion(t, "processes", reaped)
	s.proceed()
	waitFor(t, "the program runs", func() bool { return strings.Contains(s.text(), "running") })
	program := s.d.Status().GetPrograms()[0]
	id, err := proc.Of(int(program.GetPid()))
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere, err := id.Elsewhere("pid", "mnt"); err != nil || !elsewhere {
		t.Errorf("in phosd's namespaces: %v, %v", !elsewhere, err)
	}
	s.end(reaped)
}

// deserted is the program of these tests.
const deserted = onGPU + "deserted = 1\nready()"

// desertion is a restore that bob's process in a container has asked for.
type desertion struct {
	t      *testing.T
	b      *user
	c      *container
	d      *harness.Daemon
	caller proc.Identity
	said   *lines
	// proceedAt is the file for which phosd waits.
	proceedAt string
}

// newDesertion saves a program outside, and asks for its restore in a container. phosd waits before
// a step, or for the first command.
func newDesertion(t *testing.T, step, ends string) *desertion {
	t.Helper()
	s := &desertion{t: t, b: bob(t), d: start(t), c: newContainer(t), said: &lines{}}
	s.proceedAt = filepath.Join(t.TempDir(), "go")
	t.Cleanup(func() { killRestored(s.d) }) // what should not have been restored
	program, image, when := s.b.programIn(s.d, "program", "", deserted), s.b.file("image"), "late"
	s.b.mustCLI(s.d, "--dump", "--dir", image, "--pid", pid(program))
	if step != "" {
		when = "at once"
		s.d.Kill()
		s.d.Relaunch(ckpt.FailpointsVariable + "=" + step + "=until:" + s.proceedAt)
	}
	attack := s.b.intruder(s.d, "restore-desert", image, s.b.file("leave"), when)
	if ends == zombie {
		neglect(attack)
	}
	attack = s.c.within(attack, s.b.uid)
	attack.Stdout = s.said
	background(t, attack)
	waitFor(t, "the restore is asked for", func() bool { return strings.Contains(s.text(), "asked") })
	s.caller = s.callerOf(attack, ends)
	if step != "" {
		s.d.LogContains("name=" + step)
	}
	return s
}

// callerOf returns the process that connects.
func (s *desertion) callerOf(attack *exec.Cmd, ends string) proc.Identity {
	s.t.Helper()
	pid := attack.Process.Pid
	if pid = harness.OnlyChild(s.t, pid); ends == zombie {
		pid = harness.OnlyChild(s.t, pid)
	}
	caller, err := proc.Of(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return caller
}

func (s *desertion) text() string { return strings.Join(s.said.all(), "") }

// proceed lets phosd go on.
func (s *desertion) proceed() {
	s.t.Helper()
	if err := os.WriteFile(s.proceedAt, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// end ends the process that has connected, and its child goes on; or all processes of the
// container.
func (s *desertion) end(how string) {
	s.t.Helper()
	if how == inContainer {
		if err := unix.Kill(s.c.init, unix.SIGKILL); err != nil {
			s.t.Fatal(err)
		}
	}
	s.b.write("leave")
	waitEnd(s.t, s.caller)
}
