package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// container is a pid and a mount namespace on the same files, with a process that only waits.
type container struct {
	t    *testing.T
	init int
}

func newContainer(t *testing.T) *container {
	t.Helper()
	for _, tool := range []string{"unshare", "nsenter", "setpriv"} {
		_, err := exec.LookPath(tool)
		harness.Need(t, "container", err)
	}
	init := harness.InNamespaces(t, []string{"--mount", "--mount-proc"}, "sh", "-c", "echo ready; exec sleep 100000")
	return &container{t, init}
}

// within makes a command run in the container, as a user.
func (c *container) within(command *exec.Cmd, uid uint32) *exec.Cmd {
	inside := exec.Command("nsenter", append([]string{
		"--target", strconv.Itoa(c.init), "--mount", "--pid", "--wdns=" + orRoot(command.Dir), "setpriv",
		fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups", command.Path,
	}, command.Args[1:]...)...)
	inside.Env = command.Env
	inside.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return inside
}

func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}

// TestDeadCallerInContainer: a process in a container connects, hands off an image, and ends. On
// its connection another process asks for a restore. The program must not come back, least of all
// outside, where phosd is.
func TestDeadCallerInContainer(t *testing.T) {
	b, d, c := bob(t), start(t), newContainer(t)
	program := b.programIn(d, "program", "", onGPU+"ready()")
	image := b.file("image")
	b.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	text, err := run(t, c.within(b.intruder(d, "restore-leave", image), b.uid))
	if err != nil {
		t.Fatal(err, text)
	}
	if !strings.Contains(text, "restore: ") || strings.Contains(text, "<nil>") || strings.Contains(text, "running") {
		t.Errorf("a restore for a dead process got %q, want an error", text)
	}
	if programs := d.Status().GetPrograms(); len(programs) != 0 {
		t.Errorf("restored: %v", programs)
	}
}

// TestRootOfContainer: the root of a container without a user namespace has the user id of the
// machine's root. It neither stops phosd nor gets its keys.
func TestRootOfContainer(t *testing.T) {
	d, c := start(t), newContainer(t)
	for _, arguments := range [][]string{{"--stop"}, {"image", "key", "export"}} {
		text, err := run(t, c.within(d.Command(arguments...), 0))
		if err == nil || !strings.Contains(text, "outside of containers") {
			t.Errorf("pos_cli %v as root of a container: %v: %q", arguments, err, text)
		}
	}
	if text, err := run(t, c.within(d.Command("--status"), 0)); err != nil {
		t.Errorf("status as root of a container: %v: %s", err, text)
	}
}

// givePID makes the next process of a user get a pid, which is free. The process only waits.
func (u *user) givePID(pid int) *exec.Cmd {
	u.t.Helper()
	return u.givePIDTo(pid, func() *exec.Cmd { return u.as(exec.Command("sleep", "100000")) })
}

// startTick is the unit in which the kernel tells when a process started.
const startTick = 10 * time.Millisecond

// givePIDTo makes a command run with a pid, which is free. Commands that get another one are killed
// at once.
func (u *user) givePIDTo(pid int, prepare func() *exec.Cmd) *exec.Cmd {
	u.t.Helper()
	// A process is known by its pid and its start. Without ns_last_pid a pid is given again only after
	// all others, which takes seconds, never in the tick in which the process before it started.
	time.Sleep(2 * startTick)
	for range 1000 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			u.t.Skipf("the kernel gives no chosen pid: %v", err)
		}
		command := prepare()
		if err := command.Start(); err != nil {
			u.t.Fatal(err)
		}
		if command.Process.Pid == pid {
			u.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
			return command
		}
		_ = command.Process.Kill()
		_ = command.Wait() // another process was faster
	}
	u.t.Skipf("pid %d was never given", pid)
	return nil
}

// TestRecycledCaller: bob connects and ends, and alice's process gets the pid. On bob's connection,
// which a child process still has, a request gets nothing of what alice may see.
func TestRecycledCaller(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	attack := b.intruder(d, "connect-wait", b.file("go"))
	said := &lines{}
	attack.Stdout = said
	if err := attack.Start(); err != nil {
		t.Fatal(err)
	}
	left := attack.Process.Pid
	done := make(chan error, 1)
	go func() { done <- attack.Wait() }() // with the child, which has the output open
	waitFor(t, "the caller has ended", func() bool { _, err := proc.Of(left); return err != nil })
	a.givePID(left)
	if err := os.WriteFile(b.file("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(said.all(), ""); !strings.Contains(text, "status:") || strings.Contains(text, "<nil>") {
		t.Errorf("on the connection of a recycled pid: %q, want an error", text)
	}
}

// TestRecycledHello: bob connects and ends, and a program of alice's on a GPU gets the pid, all
// within the time that a connection may be silent. On bob's connection, which a child process still
// has, a hello gets no session, and alice's program is not taken for one that called exec.
func TestRecycledHello(t *testing.T) {
	a, b, d := alice(t), bob(t), start(t)
	attack := b.intruder(d, "connect-hello", b.file("go"))
	said := &lines{}
	attack.Stdout = said
	left := background(t, attack).Process.Pid
	waitFor(t, "the caller has ended", func() bool { _, err := proc.Of(left); return err != nil })
	victim := a.givePIDTo(left, func() *exec.Cmd {
		return a.python(d, tells+"signal.signal(signal.SIGUSR1, lambda *_: (allocate(4096), tell()))\nready()")
	})
	waitFor(t, "alice's program is ready", func() bool { return exists(a.file("ready")) })
	before := d.Status().GetPrograms()
	b.write("go")
	waitFor(t, "the hello is answered", func() bool { return len(said.all()) > 0 })
	if text := strings.Join(said.all(), ""); strings.Contains(text, "welcome") {
		t.Errorf("on the connection of a recycled pid: %q, want no session", text)
	}
	if now := d.Status().GetPrograms(); len(before) != 1 || len(now) != 1 || now[0].GetSession() != before[0].GetSession() {
		t.Errorf("programs: %v, before %v; want alice's, in the same session", now, before)
	}
	signalTo(t, victim)
	waitFor(t, "alice's program uses its GPU", func() bool { return exists(a.file("alive")) })
}
