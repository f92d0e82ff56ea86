package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// text collects the output of a pipe or a terminal.
type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *text) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(data)
}

// String returns all output, with the line ends that programs write.
func (o *text) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ReplaceAll(o.buffer.String(), "\r\n", "\n")
}

// terminal returns a new terminal whose output goes to out. It closes when the last file descriptor
// of end is closed.
func terminal(t *testing.T) (end *os.File, out *text) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if end, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end.Close() })
	out = &text{}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return end, out
}

// ends are the ways to connect a command's output.
var ends = map[string]func(t *testing.T, command *exec.Cmd) *text{
	"pipe": func(_ *testing.T, command *exec.Cmd) *text {
		out := &text{}
		command.Stdout = out
		return out
	},
	"terminal": func(t *testing.T, command *exec.Cmd) *text {
		end, out := terminal(t)
		command.Stdin, command.Stdout = end, end
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		return out
	},
}

// TestEnds stops programs that write to a pipe or a terminal, and restores them with another one.
// No line may be lost or repeated.
func TestEnds(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	for first, give := range ends {
		for second, giveAgain := range ends {
			t.Run(first+" and "+second, func(t *testing.T) {
				job := daemon.Job(t, program, "60", "20000", "10000")
				job.Hold = true
				var before, after *text
				job.Prepare = func(command *exec.Cmd) { before = give(t, command) }
				job.PrepareCLI = func(command *exec.Cmd) { after = giveAgain(t, command) }
				job.Start()
				daemon.Eventually("there are lines", func() bool { return strings.Count(before.String(), "\n") > 3 })
				job.Dump()
				job.Restore()
				if got := job.Finish(); got != status {
					t.Errorf("exited with status %d, want %d: %s", got, status, job.Stderr())
				}
				daemon.Eventually("the last line", func() bool {
					return strings.HasSuffix(before.String()+after.String(), want["out"][len(want["out"])-10:])
				})
				got := harness.Result{"out": before.String() + after.String(), "steps": job.Result()["steps"], "err": ""}
				if differences := got.Differs(want); differences != "" {
					t.Error(differences)
				}
			})
		}
	}
	daemon.Empty()
}

// TestPipeline saves a shell with a program and a tee, which is the usual way to watch and keep a
// log.
func TestPipeline(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, _ := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	want["log"] = want["out"]
	job := daemon.Job(t, "/bin/sh", "-c", program+" 60 20000 10000 | tee log; exit 5")
	job.Hold = true
	job.Start()
	job.WaitLines(3)
	for range generations {
		job.PreDump()
	}
	job.Kill()
	for n := generations; n > 0; n-- {
		job.Restore("--generation", strconv.Itoa(n))
		job.FinishLike(t, fmt.Sprint("generation ", n), want, 5)
	}
	daemon.Empty()
}
