package scenarios

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestObstacles: a checkpoint names what cannot be saved and the remedy, before it changes
// anything.
func TestObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		with  func(t *testing.T, words []string) []string
		after func(t *testing.T, a *stepper)
		want  []string
	}{
		"a connection to the outside":  {with: listening, want: []string{"TCP connection", "127.0.0.1:"}},
		"another GPU library's device": {with: device, want: []string{"/dev/nvidia", "another GPU library", "descriptor "}},
		"a debugger": {after: attachDebugger, want: []string{
			"is traced by pid " + fmt.Sprint(os.Getpid()), "detach",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := start(t, "--log-level=debug"), image(t)
			words := []string{"none"}
			if c.with != nil {
				words = c.with(t, words)
			}
			a := stepperCommand(t, program(d, words...))
			if c.after != nil {
				c.after(t, a)
			}
			for _, verb := range []string{"--pre-dump", "--dump"} {
				text, err := cli(t, d, verb, "--dir", dir, "--pid", fmt.Sprint(a.pid))
				if err == nil {
					t.Errorf("%s succeeded, want failure: %s", verb, text)
				}
				for _, want := range append(c.want, fmt.Sprintf("pid %d (", a.pid)) {
					if !strings.Contains(text, want) {
						t.Errorf("%s does not name %q: %s", verb, want, text)
					}
				}
			}
			log, err := os.ReadFile(d.Log)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(log), "name=inspect") || strings.Contains(string(log), "name=begin") ||
				strings.Contains(string(log), "name=freeze") {
				t.Errorf("the inspection did not find the obstacle:\n%s", log)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the image's directory was left behind")
			}
			a.step(1, 1)
			a.finish(0)
			d.Empty()
		})
	}
}

func listening(t *testing.T, words []string) []string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return append(words, "tcp", fmt.Sprint(listener.Addr().(*net.TCPAddr).Port))
}

// device creates a device file with the name of an NVIDIA device. It has the number of /dev/null,
// because without the driver a device with its own number cannot be opened.
func device(t *testing.T, words []string) []string {
	path := fmt.Sprintf("/dev/nvidia-phos-test-%d", os.Getpid())
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	harness.Need(t, "device files", err)
	t.Cleanup(func() { os.Remove(path) })
	return append(words, "device", path)
}

// attachDebugger attaches the test to a program with ptrace, until it exits.
func attachDebugger(t *testing.T, a *stepper) {
	t.Helper()
	done, seized := make(chan struct{}), make(chan error)
	go func() {
		// ptrace belongs to the thread, which exits with this goroutine
		runtime.LockOSThread()
		seized <- unix.PtraceSeize(a.pid)
		<-done
	}()
	t.Cleanup(func() { close(done) })
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
}
