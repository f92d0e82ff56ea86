package hosts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// counter writes 1, 2, 3 and so on to a file, which is replaced each time.
const counter = `i=0; while :; do i=$((i+1)); echo $i >$0.new; mv $0.new $0; done`

// startCounter starts a counter on a host, and returns what reads it.
func startCounter(t *testing.T, h *Host) (read func() int) {
	t.Helper()
	file := filepath.Join(SharedDir, h.Name)
	h.Start("counter", "bash", "-c", counter, file)
	read = func() int {
		text, _ := os.ReadFile(filepath.Join(h.Shared(), h.Name))
		count, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return count
	}
	harness.Eventually(t, "the counter counts", func() bool { return read() > 0 })
	return read
}

// TestFreeze: no process of a frozen host runs, all others do, and all run after it is thawed.
func TestFreeze(t *testing.T) {
	fleet := New(t, 2, Options{})
	a, b := startCounter(t, fleet[0]), startCounter(t, fleet[1])
	for range 3 {
		fleet[0].Freeze()
		frozen, other := a(), b()
		harness.Eventually(t, "the other host goes on", func() bool { return b() > other+20 })
		if now := a(); now != frozen {
			t.Errorf("the frozen host counted from %d to %d", frozen, now)
		}
		if err := fleet[0].Command(context.Background(), "true").Run(); !errors.Is(err, ErrFrozen) {
			t.Errorf("a command on a frozen host: %v", err)
		}
		fleet[0].Thaw()
		harness.Eventually(t, "the thawed host goes on", func() bool { return a() > frozen })
	}
	fleet[0].Freeze() // and the end of the test kills it
}

// marker is a variable of the environment by which processes are found.
const marker = "PHOS_HOSTS_MARKER"

// marked returns the processes of the machine that have a marker.
func marked(t *testing.T, value string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range files {
		if text, _ := os.ReadFile(each); strings.Contains(string(text), marker+"="+value) {
			pids = append(pids, each)
		}
	}
	return pids
}

// hiding are processes that leave their session, their parents and their cgroup, and ignore
// signals.
const hiding = `
trap "" TERM HUP INT
mkdir -p $0/hidden
(setsid setsid sleep 1000 & )
(echo 0 >$0/hidden/cgroup.procs; setsid bash -c 'trap "" TERM; sleep 1000 & sleep 1000' & )
setpriv --reuid 61241 --regid 61241 --clear-groups sleep 1000 &
echo ready
sleep 1000
`

// startHiding starts such processes, and returns when they exist.
func startHiding(t *testing.T, h *Host, value string) {
	t.Helper()
	top := strings.TrimSpace(h.Shell("awk '$3 == \"cgroup2\" {print $2; exit}' /proc/self/mounts"))
	h.Daemon(Daemon{
		Name: "hiding", Arguments: []string{"bash", "-c", hiding, top}, Environment: []string{marker + "=" + value},
		Ready: func() bool { return len(marked(t, value)) >= 6 },
	})
}

// TestKill: no process and no cgroup of a killed host is left, whatever its processes have done;
// the other hosts go on.
func TestKill(t *testing.T) {
	fleet := New(t, 2, Options{})
	value := t.Name() + strconv.Itoa(os.Getpid())
	count := startCounter(t, fleet[1])
	for _, frozen := range []bool{false, true} {
		startHiding(t, fleet[0], value)
		own := fleet[0].groups
		if pids := fleet[0].Processes(); len(pids) < 7 {
			t.Errorf("the host has the processes %v", pids)
		}
		if frozen {
			fleet[0].Freeze()
		}
		fleet[0].Kill()
		if left := marked(t, value); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		for _, each := range append(own.old, own.unified) {
			if _, err := os.Stat(each); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the cgroup %s is left: %v", each, err)
			}
		}
		if err := fleet[0].Command(context.Background(), "true").Run(); !errors.Is(err, ErrOff) {
			t.Errorf("a command on a killed host: %v", err)
		}
		if err := fleet[0].Do(func() error { return nil }); !errors.Is(err, ErrOff) || fleet[0].Running() {
			t.Errorf("Do on a killed host: %v", err)
		}
		fleet[0].Kill() // does nothing
		fleet[0].Boot()
	}
	before := count()
	harness.Eventually(t, "the other host goes on", func() bool { return count() > before })
	if err := fleet[1].boot(); err == nil {
		t.Error("a running host was booted")
	}
}

// TestKillWhileStarting: a host may be frozen, killed and booted while programs are started on it.
func TestKillWhileStarting(t *testing.T) {
	h := New(t, 1, Options{})[0]
	ended := make(chan struct{})
	var starters sync.WaitGroup
	started := make([]int, 4)
	for i := range started {
		starters.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				command := h.Command(context.Background(), "sleep", "1000")
				if command.Start() == nil && started[i]%2 == 0 { // and some are never waited for
					go func() { _ = command.Wait() }()
				}
				started[i]++
			}
		})
	}
	for round := range 6 {
		if round%2 == 1 {
			h.Freeze()
		}
		h.Kill()
		h.Boot()
	}
	close(ended)
	starters.Wait()
	t.Logf("%v starts were tried", started)
}

// TestKillWhileDialing: a function of the test that waits in a host does not keep it.
func TestKillWhileDialing(t *testing.T) {
	fleet := New(t, 2, Options{})
	h := fleet[0]
	h.CutOff(Both)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dialled := make(chan error, 1)
	go func() {
		_, err := h.Dial(ctx, "tcp4", fleet[1].Address.String()+":80")
		dialled <- err
	}()
	const waits = " 02 " // SYN_SENT
	harness.Eventually(t, "the connection waits for an answer", func() bool {
		return strings.Contains(h.Run("cat", "/proc/net/tcp"), waits)
	})
	h.Kill()
	h.Boot()
	if got := h.Run("cat", "/proc/net/tcp"); strings.Contains(got, waits) {
		t.Errorf("the booted host has the connection: %s", got)
	}
	cancel()
	if err := <-dialled; !errors.Is(err, context.Canceled) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("dial: %v", err)
	}
}

// TestBoot: a host boots with its disk and its address, and without anything that was in memory; in
// its place one with an empty disk may come.
func TestBoot(t *testing.T) {
	needPython(t)
	fleet := New(t, 2, Options{})
	h := fleet[0]
	server := h.Start("server", "python3", "-m", "http.server", "--bind", h.Address.String(), "80")
	answers := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := fleet[1].Dial(ctx, "tcp4", h.Address.String()+":80")
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	harness.Eventually(t, "the server answers", answers)
	const facts = "cat /proc/sys/kernel/random/boot_id /etc/machine-id; cat /etc/file /var/lib/file /run/file /dev/shm/file 2>/dev/null || true"
	h.Shell("for at in /etc /var/lib /run /dev/shm; do echo $at >$at/file; done")
	read := func() (boot, machine, files string) {
		boot, rest, _ := strings.Cut(h.Shell(facts), "\n")
		machine, files, _ = strings.Cut(rest, "\n")
		return boot, machine, files
	}
	boot, machine, files := read()
	if files != "/etc\n/var/lib\n/run\n/dev/shm\n" || len(boot) != 36 || len(machine) != 32 {
		t.Fatalf("at first: boot %q, machine %q, files %q", boot, machine, files)
	}
	h.Kill()
	if err := server.Await(); err == nil || server.Alive() {
		t.Error("the server ended well")
	}
	if text, err := os.ReadFile(h.DiskPath("/var/lib/file")); err != nil || string(text) != "/var/lib\n" {
		t.Errorf("on the disk of the host that is off: %q, %v", text, err)
	}
	if err := os.WriteFile(h.DiskPath("/etc/file"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Boot()
	boot2, machine2, files := read()
	if boot2 == boot || machine2 != machine || files != "changed\n/var/lib\n" {
		t.Errorf("after a boot: boot %s then %s, machine %s then %s, files %q", boot, boot2, machine, machine2, files)
	}
	if answers() {
		t.Error("the server answers before it is started")
	}
	server.Start()
	harness.Eventually(t, "the server answers again", answers)
	h.Kill()
	h.Replace()
	boot3, machine3, files := read()
	if boot3 == boot2 || machine3 == machine || files != "" {
		t.Errorf("replaced: boot %s, machine %s then %s, files %q", boot3, machine, machine3, files)
	}
}

// TestDaemon: a daemon's ends and its log are known, and its children go on without it.
func TestDaemon(t *testing.T) {
	h := New(t, 1, Options{})[0]
	value := t.Name() + strconv.Itoa(os.Getpid())
	d := h.Daemon(Daemon{
		Name: "daemon", Arguments: []string{"bash", "-c", "sleep 1000 & echo \"it says $0 $1 $WORD\"; echo ready >&3; wait; :", "zero"},
		Environment: []string{"WORD=word", marker + "=" + value}, ReadyFD: true,
	})
	if got := h.Run("cat", fmt.Sprintf("/proc/%d/comm", d.PID())); got != "bash\n" {
		t.Errorf("its pid is of %q", got)
	}
	if got := h.Shell(fmt.Sprintf("grep ^0:: /proc/%d/cgroup", d.PID())); got != "0::/daemon\n" {
		t.Errorf("its cgroup is %q", got)
	}
	d.Kill()
	var ended *exec.ExitError
	if err := d.Await(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if left := marked(t, value); len(left) != 1 {
		t.Errorf("%d processes are left, want its child", len(left))
	}
	d.Signal(syscall.SIGTERM) // does nothing
	d.Start()
	if got, want := d.LogText(), strings.Repeat("it says zero --ready-fd=3 word\n", 2); got != want {
		t.Errorf("log: %q, want %q", got, want)
	}
	if err := d.start(); err == nil {
		t.Error("it was started twice")
	}
	for _, bad := range []*Daemon{
		{Arguments: []string{"sh", "-c", "exit 3"}, ReadyFD: true},
		{Arguments: []string{"sh", "-c", "echo not now >&3; sleep 1000"}, ReadyFD: true},
		{Arguments: []string{"sh", "-c", "exit 3"}, Ready: func() bool { return false }},
		{Arguments: []string{"/no/such/program"}},
	} {
		bad.Name, bad.host = "bad", h
		if err := bad.start(); err == nil {
			t.Errorf("%v got ready", bad.Arguments)
		}
	}
}

// childVariable makes this test the child of TestKilledTest.
const childVariable = "PHOS_HOSTS_CHILD"

// TestKilledTest: when the process of a test is killed, so are all processes of its hosts, frozen
// ones included. The next process removes its cgroups and directories, and none of those of a
// process that runs.
func TestKilledTest(t *testing.T) {
	value := t.Name() + strconv.Itoa(os.Getpid())
	if child := os.Getenv(childVariable); child != "" {
		fleet := New(t, 2, Options{})
		for _, each := range fleet {
			startHiding(t, each, child+each.Name)
		}
		fleet[1].Freeze()
		fmt.Println("made", fleet[0].fleet.name)
		select {}
	}
	mine := New(t, 1, Options{})[0]
	child := exec.Command(os.Args[0], "-test.run=^TestKilledTest$")
	child.Env = append(os.Environ(), childVariable+"="+value)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var name string
	for lines := bufio.NewScanner(out); name == "" && lines.Scan(); {
		_, name, _ = strings.Cut(lines.Text(), "made ")
	}
	if err := errors.Join(child.Process.Kill(), ignoreExit(child.Wait())); err != nil || name == "" {
		t.Fatalf("the child made %q: %v", name, err)
	}
	harness.Eventually(t, "no process is left", func() bool {
		if left := marked(t, value); len(left) > 0 {
			return false
		}
		return true
	})
	if left := leftOf(t, name); len(left) < 3 {
		t.Errorf("the killed process left %v", left)
	}
	if err := sweep(); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if len(leftOf(t, mine.fleet.name)) < 3 {
		t.Error("what this process needs was removed")
	}
	mine.Run("true")
}

// ignoreExit returns nil for the error of a process that was killed.
func ignoreExit(err error) error {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return nil
	}
	return err
}

// leftOf returns the cgroups and directories of a fleet.
func leftOf(t *testing.T, name string) (found []string) {
	t.Helper()
	parents, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range append(parents, place) {
		if path := filepath.Join(parent, name); exists(path) {
			found = append(found, path)
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
