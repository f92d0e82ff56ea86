package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
)

// candidateVariable holds the endpoint of a process that leads.
const candidateVariable = "PHOS_TEST_CANDIDATE"

// candidate is a process that leads, and says so: its epoch and until when it leads at least, and
// after its end until when it led.
type candidate struct {
	*testing.T
	command *exec.Cmd
	output  *bufio.Reader
}

// runCandidate is what the process does.
func runCandidate(endpoint string) {
	s, err := etcd.Open(etcd.Config{Endpoints: []string{endpoint}, Lease: shortLease})
	if err != nil {
		panic(err)
	}
	leads, err := s.Campaign(context.Background(), "candidate")
	if err != nil {
		panic(err)
	}
	fmt.Println(int64(leads.Epoch()), int64(leads.Until()))
	<-leads.Lost()
	_, err = s.Put(context.Background(), store.Write{Key: "late", Epoch: leads.Epoch()})
	fmt.Println(int64(leads.Until()), errors.Is(err, store.ErrDeposed))
}

func startCandidate(t *testing.T, endpoint string) *candidate {
	t.Helper()
	c := &candidate{T: t, command: exec.Command("/proc/self/exe")}
	c.command.Env = append(os.Environ(), candidateVariable+"="+endpoint)
	c.command.Stderr = os.Stderr
	output, err := c.command.StdoutPipe()
	if err == nil {
		err = c.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewReader(output)
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		_ = c.command.Wait()
	})
	return c
}

func (c *candidate) signal(signal syscall.Signal) {
	c.Helper()
	if err := c.command.Process.Signal(signal); err != nil {
		c.Fatal(err)
	}
}

// says reads a line of the process.
func (c *candidate) says(values ...any) {
	c.Helper()
	line, err := c.output.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, values...)
	}
	if err != nil {
		c.Fatalf("the candidate says %q: %v", line, err)
	}
}

// freeze stops the process, and waits until it has stopped.
func (c *candidate) freeze() {
	c.Helper()
	c.signal(unix.SIGSTOP)
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.command.Process.Pid, &info, unix.WSTOPPED, nil); err != nil {
		c.Fatal(err)
	}
}

// ended returns until when the process led, and fails the test unless its last write was refused.
func (c *candidate) ended() time.Duration {
	c.Helper()
	var until int64
	var deposed bool
	c.says(&until, &deposed)
	if !deposed {
		c.Error("a write of a leader that was replaced was not refused as such")
	}
	return time.Duration(until)
}
