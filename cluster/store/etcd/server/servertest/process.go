// Package servertest runs an etcd of package server as a process of its own, so that a test can
// kill it or make it stand still. The process is the test's own program again: TestMain calls Main.
// Tests that need only some store have one in their own process (store.go).
//
// Tested by cluster/store/etcd.
package servertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// variable holds the configuration of a server, in the environment of its process.
const variable = "PHOS_TEST_ETCD"

// ready is the line that a process writes when its server serves.
const ready = "ready\n"

// parallel is how many tests run at once: they wait more than they compute.
const parallel = "5"

// Main runs a server if the environment has one, or else the tests.
func Main(m *testing.M) {
	text := os.Getenv(variable)
	if text == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "etcd of a test:", err)
		os.Exit(1)
	}
}

// serve runs a server until standard input ends.
func serve(text string) error {
	var config server.Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := server.Start(context.Background(), config)
	if err != nil {
		return err
	}
	fmt.Print(ready)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
		return s.Close()
	case <-s.Failed():
		return s.Err()
	}
}

// Process is a server in a process of its own.
type Process struct {
	Config  server.Config
	command *exec.Cmd
	input   io.Closer
	output  *bufio.Reader
	log     bytes.Buffer // of all processes, complete when the last one has been killed
}

// Config returns the configuration of a server that is alone, in a directory of the test.
func Config(t testing.TB) server.Config {
	t.Helper()
	return server.Config{Cluster: "test", Name: "alone", DataDir: filepath.Join(Dir(t), "data")}
}

// Dir returns a private directory with a short path, as sockets need it.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Start starts a server, which is killed when the test ends.
func Start(t testing.TB, config server.Config) *Process {
	t.Helper()
	p := Launch(t, config)
	p.Await(t)
	return p
}

// Launch starts the process of a server, without waiting until it serves.
func Launch(t testing.TB, config server.Config) *Process {
	t.Helper()
	p := &Process{Config: config}
	p.launch(t)
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Logf("etcd in %s says:\n%s", config.DataDir, p.log.String())
		}
	})
	return p
}

// launch starts the process.
func (p *Process) launch(t testing.TB) {
	t.Helper()
	p.Config.Log = nil
	text, err := json.Marshal(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	p.command = exec.Command("/proc/self/exe")
	p.command.Env = append(os.Environ(), variable+"="+string(text))
	p.command.Stderr = &p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := p.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.input, p.output = input, bufio.NewReader(output)
	if err := startInThread(p.command); err != nil {
		t.Fatal(err)
	}
}

// startInThread starts a process from a thread that never ends: the process would die with it.
func startInThread(command *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- command.Start()
		select {} // the thread must not end
	}()
	return <-started
}

// Await waits until the server serves.
func (p *Process) Await(t testing.TB) {
	t.Helper()
	if line, err := p.output.ReadString('\n'); err != nil || line != ready {
		t.Fatalf("etcd in %s did not start: %q, %v", p.Config.DataDir, line, err)
	}
}

// Restart starts the server again, after Kill.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.launch(t)
	p.Await(t)
}

// Kill ends the process without a warning, and waits for its end.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	_ = p.input.Close()
}

// PID returns the pid of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Wait waits until the process ends by itself, and returns what it has said.
func (p *Process) Wait() string {
	_ = p.command.Wait()
	_ = p.input.Close()
	return p.log.String()
}

// Freeze makes the process stand still, and waits until it does. Its connections stay open.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.signal(t, unix.SIGSTOP)
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, p.command.Process.Pid, &info, unix.WSTOPPED, nil); err != nil {
		t.Fatal(err)
	}
}

// Thaw lets the process go on.
func (p *Process) Thaw(t testing.TB) { p.signal(t, unix.SIGCONT) }

// signal sends a signal, or ends the test.
func (p *Process) signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Endpoint returns where clients of this machine find the server.
func (p *Process) Endpoint() string {
	if p.Config.Members != nil {
		return p.Config.Members.ClientURL
	}
	return "unix://" + filepath.Join(p.Config.DataDir, server.SocketName)
}
