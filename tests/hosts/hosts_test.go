package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts/walltime"
)

// TestSeparate: hosts see neither each other's files and processes nor the machine's, besides what
// they share.
func TestSeparate(t *testing.T) {
	fleet := New(t, 2, Options{})
	a, b := fleet[0], fleet[1]
	for _, dir := range []string{"/run", "/tmp", "/dev/shm", "/etc", "/var/lib", "/var/log"} {
		file := filepath.Join(dir, "phos-hosts-test")
		a.Shell("echo a >" + file)
		b.Shell("test ! -e " + file)
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s is on the machine, too", file)
		}
		if text, err := os.ReadFile(a.Path(file)); err != nil || string(text) != "a\n" {
			t.Errorf("%s of the host: %q, %v", file, text, err)
		}
	}
	a.Shell("setpriv --reuid 61241 --regid 61241 --clear-groups sh -c 'echo of a user >/mnt/file'")
	if got := b.Run("cat", "/mnt/file"); got != "of a user\n" {
		t.Errorf("a shared file: %q", got)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for what, script := range map[string]string{
		"name": "hostname", "boot id": "cat /proc/sys/kernel/random/boot_id", "machine id": "cat /etc/machine-id",
		"pid": "echo $$", "pid namespace": "readlink /proc/self/ns/pid", "network": "readlink /proc/self/ns/net",
	} {
		here, _ := exec.Command("bash", "-c", script).Output()
		if x, y := a.Shell(script), b.Shell(script); x == y || x == string(here) || y == string(here) {
			t.Errorf("%s: %q and %q, and %q here", what, x, y, here)
		}
	}
	if got, _ := os.Hostname(); got != name {
		t.Errorf("the machine is called %s now", got)
	}
	if got := b.Shell("ls /sys/class/net | grep -v _ | xargs; cat /etc/hostname; getent hosts node1"); !strings.HasPrefix(got, "eth0 lo\nnode2\n198.18.0.1 ") {
		t.Errorf("network and names: %q", got)
	}
	// init, the shell, and what it runs.
	if got := len(strings.Fields(a.Shell("ls -d /proc/[0-9]*"))); got > 5 {
		t.Errorf("the host sees %d processes", got)
	}
}

// TestVisible: what lies below a private directory is seen if the options say so.
func TestVisible(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "phos-hosts-visible-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	inside := filepath.Join(dir, "inside")
	for _, each := range []error{os.Mkdir(inside, 0o755), os.WriteFile(inside+"/file", []byte("seen"), 0o644)} {
		if each != nil {
			t.Fatal(each)
		}
	}
	h := New(t, 1, Options{Visible: []string{inside, dir, "/tmp/does/not/exist", inside}})[0]
	if got := h.Run("cat", inside+"/file"); got != "seen" {
		t.Errorf("read %q", got)
	}
	h.Run("test", "-x", filepath.Join(harness.Bin(), "phosd"))
	h.Run("test", "-d", t.TempDir())
}

// TestCommand: commands are in the host with everything that they are told, and their ends are
// reported as usual.
func TestCommand(t *testing.T) {
	h := New(t, 1, Options{})[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	command := h.Command(ctx, "bash", "-c", "id -u; id -g; id -G; pwd; cat; echo $MORE; hostname; exit 3").As(61241, 61242, 7, 8)
	command.Dir, command.Stdin = "/usr", strings.NewReader("input\n")
	command.Env = append(command.Env, "MORE=more")
	output, err := command.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 3 {
		t.Errorf("ended with %v", err)
	}
	if want := "61241\n61242\n61242 7 8\n/usr\ninput\nmore\nnode1\n"; string(output) != want {
		t.Errorf("output: %q, want %q", output, want)
	}
	sleeper := h.Command(ctx, "sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if got := h.Run("cat", fmt.Sprintf("/proc/%d/comm", sleeper.PID())); got != "sleep\n" {
		t.Errorf("by its pid on the host it is %q", got)
	}
	cancel()
	if err := sleeper.Wait(); err == nil {
		t.Error("a cancelled command ended well")
	}
	if err := h.Command(context.Background(), "/no/such/program").Run(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// TestDo: a function runs in the host's namespaces, its error is returned, and the test's process
// stays where it was.
func TestDo(t *testing.T) {
	h := New(t, 1, Options{})[0]
	before, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	for range 100 {
		if err := h.Do(func() error { return mine }); !errors.Is(err, mine) {
			t.Errorf("its error: %v", err)
		}
	}
	err = h.Do(func() error {
		name, err := os.Hostname()
		if _, missing := os.Stat("/etc/hostname"); err != nil || name != h.Name || missing != nil {
			t.Errorf("in the host: name %q, %v, %v", name, err, missing)
		}
		runtime.Goexit()
		return nil
	})
	if !errors.Is(err, errLeft) {
		t.Errorf("a function that does not return: %v", err)
	}
	if after, err := os.Readlink("/proc/self/ns/mnt"); err != nil || after != before {
		t.Errorf("this process is in %s now, and was in %s: %v", after, before, err)
	}
}

// TestImpossible: a number of hosts that cannot be, and what is missing on a machine, are reported.
func TestImpossible(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "hosts", Possible())
	t.Setenv("PATH", "/none")
	if err := Possible(); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without tools: %v", err)
	}
}

// TestInit: the first process ends what lost its parent.
func TestInit(t *testing.T) {
	h := New(t, 1, Options{})[0]
	h.Shell("for i in $(seq 20); do (sleep 0.01 & ); done")
	harness.Eventually(t, "no child of init is left, not even a zombie", func() bool {
		return strings.TrimSpace(h.Shell("cat /proc/1/task/1/children")) == ""
	})
}

// needPython skips a test on a machine without Python.
func needPython(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
}

// TestLimits: processes of a host make cgroups of their own, with limits.
func TestLimits(t *testing.T) {
	needPython(t)
	h := New(t, 1, Options{})[0]
	if got := h.Shell("grep ^0:: /proc/self/cgroup"); got != "0::/init\n" {
		t.Errorf("a command is in the cgroup %q, want init", got)
	}
	const eat = `python3 -c 'x = bytearray(300 << 20); print(len(x))'`
	script := `
if [ -d /sys/fs/cgroup/memory ]; then
	cd /sys/fs/cgroup/memory
	mkdir mine; echo 50M >mine/memory.limit_in_bytes
else
	cd /sys/fs/cgroup
	grep -qw memory cgroup.controllers || { echo none; exit; }
	echo +memory >cgroup.subtree_control
	mkdir mine; echo 50M >mine/memory.max; echo 0 >mine/memory.swap.max || true
fi
` + eat + `
{ (echo 0 >mine/cgroup.procs; exec ` + eat + `) || echo killed; } 2>/dev/null
`
	switch got := h.Shell(script); {
	case strings.HasSuffix(got, "none\n"):
		t.Skip("this machine's cgroups have no memory controller for tests")
	case got != "314572800\nkilled\n":
		t.Errorf("with 300 MiB outside and inside of a group with 50 MiB: %q", got)
	}
}

// TestClocks: the clocks of the kernel are ahead for all programs, also of other users.
func TestClocks(t *testing.T) {
	needPython(t)
	h := New(t, 1, Options{})[0]
	const ask = `python3 -c 'import time, os; print(int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.monotonic()), os.getuid(), os.getgroups())'`
	read := func(command *Command) (boot, monotonic int, rest string) {
		t.Helper()
		output, err := command.Output()
		if err == nil {
			_, err = fmt.Sscan(string(output), &boot, &monotonic)
		}
		if err != nil {
			t.Fatalf("%q, %v", output, err)
		}
		return boot, monotonic, strings.Join(strings.Fields(string(output))[2:], " ")
	}
	command := func() *Command { return h.Command(context.Background(), "bash", "-c", ask) }
	boot, monotonic, rest := read(command())
	if rest != "0 []" {
		t.Errorf("at first: %q", rest)
	}
	const day = 24 * 60 * 60
	h.SetClocks(Clocks{Boot: 20 * day * 1e9, Monotonic: 10 * day * 1e9})
	h.Kill()
	h.Boot()
	for want, as := range map[string]*Command{
		"0 []": command(), "61241 [7, 8]": command().As(61241, 61242, 7, 8), "61241 []": command().As(61241, 61242),
	} {
		x, y, rest := read(as)
		if rest != want || (x-boot)/day != 20 || (y-monotonic)/day != 10 {
			t.Errorf("%s: boot %d, monotonic %d days ahead, %q", want, (x-boot)/day, (y-monotonic)/day, rest)
		}
	}
}

// TestWallClock: programs that are built for it see the host's wall clock, also when it is set
// while they run, and after a reboot. Their monotonic times do not jump.
func TestWallClock(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "clock")
	build, err := walltime.Build(dir, "-o", program, "./tests/hosts/testdata/clock")
	harness.Need(t, "go", err)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	h := New(t, 1, Options{})[0]
	for range 2 {
		command := h.Command(t.Context(), program)
		input, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []time.Duration{0, -90 * time.Minute, 24 * time.Hour, -time.Millisecond} {
			h.SetClocks(Clocks{Wall: ahead})
			before := time.Now().Add(ahead).Unix()
			var shown int64
			var passed int
			fmt.Fprintln(input)
			if _, err := fmt.Fscan(output, &shown, &passed); err != nil {
				t.Fatal(err)
			}
			if after := time.Now().Add(ahead).Unix(); shown < before || shown > after || passed > 3600 {
				t.Errorf("a clock that is ahead by %v shows %d, not %d to %d; %d s have passed", ahead, shown, before, after, passed)
			}
		}
		input.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
		h.Kill()
		h.SetClocks(Clocks{Wall: time.Hour})
		h.Boot()
		shown := h.Shell("echo | " + program)
		if want := time.Now().Add(time.Hour).Unix(); !strings.HasPrefix(shown, fmt.Sprint(want/100)) && !strings.HasPrefix(shown, fmt.Sprint(want/100-1)) {
			t.Errorf("after a reboot the clock shows %s, not %d", shown, want)
		}
	}
}

// TestSmallDisk: a small disk fills without harm to others, and a reboot keeps what is on it.
func TestSmallDisk(t *testing.T) {
	const disk = "/var/lib/small"
	fleet := New(t, 2, Options{SmallDisks: map[string]int64{disk: 1 << 20}})
	a, b := fleet[0], fleet[1]
	a.Shell("echo kept >" + disk + "/kept; ! head -c 2M /dev/zero >" + disk + "/ballast; head -c 2M /dev/zero >/var/lib/other")
	if err := os.WriteFile(a.DiskPath(disk+"/kept"), []byte("larger than a page"+strings.Repeat(".", 8192)), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the disk is not full for the test: %v", err)
	}
	b.Shell("test ! -e " + disk + "/ballast; echo room >" + disk + "/kept")
	a.Shell("rm " + disk + "/ballast; echo kept >" + disk + "/kept")
	a.Kill()
	a.Boot()
	if got := a.Run("cat", disk+"/kept"); got != "kept\n" {
		t.Errorf("after a reboot: %q", got)
	}
}
