package scenarios

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// console is a pseudo terminal for a test.
type console struct {
	t     *testing.T
	file  *os.File
	slave *os.File
	lines chan string
}

func newConsole(t *testing.T) *console {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, file: os.NewFile(uintptr(fd), "console"), slave: slave, lines: make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(c.file); scanner.Scan(); {
			c.lines <- strings.TrimSpace(scanner.Text())
		}
	}()
	t.Cleanup(func() { c.file.Close(); slave.Close() })
	return c
}

// start starts a command at the console, as the leader of a new session.
func (c *console) start(command *exec.Cmd) *exec.Cmd {
	c.t.Helper()
	command.Stdin, command.Stdout, command.Stderr = c.slave, c.slave, c.slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = command.Process.Kill() })
	return command
}

func (c *console) typeText(text string) {
	c.t.Helper()
	if _, err := c.file.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// waitFor waits for a line that contains a text. It skips the echo of the input and progress lines.
func (c *console) waitFor(want string) string {
	c.t.Helper()
	var seen []string
	late := time.After(harness.Patience)
	for {
		select {
		case line, open := <-c.lines:
			seen = append(seen, line)
			if strings.Contains(line, want) {
				return line
			}
			if !open {
				c.t.Fatalf("the console shows %q, want %q", seen, want)
			}
		case <-late:
			c.t.Fatalf("the console shows %q, want %q", seen, want)
		}
	}
}

// TestTerminal: a shell's program continues at another terminal after a restore. The keys for end
// of input and interrupt work there.
func TestTerminal(t *testing.T) {
	_, err := exec.LookPath("bash")
	harness.Need(t, "bash", err)
	for _, key := range []string{"\x04", "\x03"} {
		t.Run(fmt.Sprintf("%q", key), func(t *testing.T) {
			d, dir := start(t), image(t)
			first := newConsole(t)
			shell := exec.Command(
				"bash",
				"--norc",
				"-c",
				"set -m; '"+python+"' -u '"+harness.Workload("everyday", "asked.py")+"'; echo over",
			)
			shell.Env = d.Environment()
			first.start(shell)
			first.waitFor("ready")
			pid := harness.OnlyChild(t, shell.Process.Pid)
			first.typeText("3\n")
			first.waitFor("3 ")
			mustCLI(t, d, "--dump", "--dir", dir, "--pid", fmt.Sprint(pid))
			first.waitFor("over")
			if err := shell.Wait(); err != nil {
				t.Errorf("the shell: %v", err)
			}
			second := newConsole(t)
			command := second.start(d.Command("--restore", "--dir", dir))
			second.waitFor("runs again")
			second.typeText("4\n")
			second.waitFor("7 ")
			d.Eventually("the program reads its terminal", func() bool { return readsInput(pid) })
			second.typeText(key)
			status := map[string]int{"\x04": 99, "\x03": 130}[key]
			a := &stepper{t: t, command: command, pid: pid, said: &syncBuffer{}}
			// Python raises the signal itself, so that its parent sees it.
			if got := a.await(); got != status {
				t.Errorf("exited with %d, want %d", got, status)
			}
			d.Empty()
		})
	}
}

// readsInput reports whether a process waits in read(2) of its standard input. Python that is about
// to read notes a signal, and does nothing about it until there is something to read.
func readsInput(pid int) bool {
	call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	return err == nil && strings.HasPrefix(string(call), "0 0x0 ")
}
