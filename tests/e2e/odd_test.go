package e2e

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

func oddProgram(t *testing.T) string {
	t.Helper()
	return harness.CompileC(t, true, harness.Workload("fault", "odd.c"))
}

// TestOdd runs programs under unusual conditions. The daemon must have nothing left of them
// afterwards.
func TestOdd(t *testing.T) {
	program := oddProgram(t)
	daemon := harness.Start(t)
	for _, word := range []string{
		"work", "no_context", "few_files", "little_space", "no_size", "no_directory", "other_user", "hole", "forks", "family",
	} {
		t.Run(word, func(t *testing.T) {
			daemon.Program(program, word).In(t).OK()
		})
	}
	daemon.Empty()
}

// TestCutFiles lets programs truncate the files that they share with their workers.
func TestCutFiles(t *testing.T) {
	program := oddProgram(t)
	daemon := harness.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	bystander := daemon.Program(faultProgram(t), "steady", done)
	bystander.StartUntil("working")
	for _, name := range []string{"session", "arena"} {
		cut := daemon.Program(program, "cut", name)
		cut.StartUntil("cut")
		_ = cut.Wait() // by a signal
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bystander.Wait(); err != nil {
		t.Fatalf("the correct program: %v: %s", err, bystander.Output.String())
	}
	daemon.Empty()
	harness.RealGPU(t, "pinned pages stay in memory when their file is truncated, and workers do not access them")
	daemon.LogContains("worker died")
}

// TestOddSurroundings runs programs with unusual files and environment variables.
func TestOddSurroundings(t *testing.T) {
	program := oddProgram(t)
	daemon := harness.Start(t)
	for _, test := range []struct {
		name, text string
		prepare    func(path string) error
		works      bool
		says       string
	}{
		{name: "directory", prepare: func(path string) error { return os.Mkdir(path, 0o755) }, works: true, says: "pos.yaml"},
		{name: "pipe", prepare: func(path string) error { return unix.Mkfifo(path, 0o644) }, works: true, says: "pos.yaml"},
		{name: "huge", prepare: func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		}, works: true, says: "pos.yaml"},
		{name: "binary", text: "\x00\xff\x7fELF\x01:\n\x80", works: true, says: "pos.yaml"},
		{
			name: "loop", prepare: func(path string) error { return os.Symlink("pos.yaml", path) }, works: true,
			says: "pos.yaml",
		},
		{name: "bombs", text: "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: &d " +
			"[*c,*c,*c,*c,*c,*c]\njob_name: [*d,*d,*d]\n", works: true, says: "pos.yaml"},
		{name: "remote", text: "daemon_addr: 10.1.2.3:1234\n", says: "10.1.2.3"},
		{name: "remote name", text: "daemon_addr: gpu.example.com\n", says: "gpu.example.com"},
		{name: "nowhere", text: "daemon_addr: /nonexistent/phosd.sock\n", says: "/nonexistent/phosd.sock"},
		{name: "long", text: "daemon_addr: /" + strings.Repeat("x", 200) + "\n", says: "daemon_addr"},
		{name: "very long", text: "daemon_addr: /" + strings.Repeat("x", 2000) + "\n", says: "daemon_addr"},
		{name: "empty", text: "", works: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			prepare := test.prepare
			if prepare == nil {
				prepare = func(path string) error { return os.WriteFile(path, []byte(test.text), 0o600) }
			}
			if err := prepare(filepath.Join(dir, "pos.yaml")); err != nil {
				t.Fatal(err)
			}
			p := daemon.Program(program, "work")
			p.Dir = dir
			err := p.Run()
			output := p.Output.String()
			if (err == nil) != test.works || !strings.Contains(output, test.says) {
				t.Errorf("error %v, output %q, want %q", err, output, test.says)
			}
		})
	}
	for _, socket := range []string{"/" + strings.Repeat("y", 300), "/etc/passwd", "/", "relative/never.sock"} {
		p := daemon.Program(program, "work")
		p.Env = append(p.Env, api.SocketVariable+"="+socket)
		if err := p.Run(); err == nil || !strings.Contains(p.Output.String(), "phos: ") {
			t.Errorf("socket %.20q: error %v, output %q", socket, err, p.Output.String())
		}
	}
	daemon.Empty()
}

// TestGarbageAtSocket sends garbage, or nothing, to phosd from many connections at once.
func TestGarbageAtSocket(t *testing.T) {
	program := oddProgram(t)
	daemon := harness.Start(t)
	daemon.Program(program, "work").OK()
	before := resources(t, daemon.PID())
	random := rand.New(rand.NewPCG(1, 2))
	messages := [][]byte{
		nil,
		{'P'},
		[]byte("PHOS"),
		[]byte("PHOS\x01\x00\x00\x00"),
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	}
	for range 20 {
		garbage := make([]byte, random.IntN(200))
		for i := range garbage {
			garbage[i] = byte(random.Uint32())
		}
		messages = append(messages, garbage, append([]byte("PHOS\x01\x00\x00\x00"), garbage...))
	}
	var open []net.Conn
	for i, message := range append(messages, messages...) {
		conn, err := net.Dial("unix", daemon.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(message)
		if i%3 == 0 {
			conn.Close()
		} else {
			open = append(open, conn)
		}
	}
	daemon.Program(program, "work").OK() // next to all these connections
	for _, conn := range open {
		conn.Close()
	}
	daemon.Eventually("no session is left", func() bool {
		left, err := os.ReadDir(filepath.Join(daemon.Dir, "sessions"))
		return err == nil && len(left) == 0
	})
	daemon.Empty()
	daemon.Eventually("phosd has closed its descriptors", func() bool {
		return resources(t, daemon.PID()).files <= before.files+4
	})
}

// TestKilledAnywhere kills programs at random times, and sometimes phosd during their handshake.
func TestKilledAnywhere(t *testing.T) {
	program := oddProgram(t)
	daemon := harness.Start(t)
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		p := daemon.Program(program, "work")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		if round%10 == 9 {
			daemon.Kill()
			_ = p.Process.Kill()
			daemon.Launch()
		}
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	daemon.Program(program, "work").OK()
	daemon.Empty()
}
