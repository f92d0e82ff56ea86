package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// container has a root with little more than the program needs. phosd runs outside, and its runtime
// directory is mounted inside. Its first process only waits.
type container struct {
	t    *testing.T
	init int
	// uid is the user id of the container's programs.
	uid int
	// dir is a directory outside that is /data inside.
	dir string
}

// containerScript is run by the first process. /usr is mounted without CRIU's own libraries.
const containerScript = `
set -e
root=$1; shift
mount --make-rprivate /
mount -t tmpfs none $root
mkdir -p $root/proc $root/dev $root/data $root/old $root/tmp $root/run $root/etc $root/sys
for part in usr bin lib lib64; do
	if [ -L /$part ]; then cp -a /$part $root/$part; elif [ -d /$part ]; then mkdir $root/$part; mount --rbind /$part $root/$part; fi
done
mount --bind "$1" $root/data; shift
for path in "$@"; do mkdir -p "$root$path"; mount --rbind "$path" "$root$path"; done
mount -t proc proc $root/proc
mount -t tmpfs -o mode=755 none $root/dev
mkdir $root/dev/shm; mount -t tmpfs -o mode=1777 none $root/dev/shm
for node in null zero random urandom tty; do touch $root/dev/$node; mount --bind /dev/$node $root/dev/$node; done
/usr/bin/python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))'
cd $root
pivot_root . old
umount -l /old
echo ready
exec sleep 100000
`

func newContainer(t *testing.T, d *harness.Daemon, uid int) *container {
	t.Helper()
	for _, tool := range []string{"unshare", "nsenter", "pivot_root", "setsid", "setpriv"} {
		_, err := exec.LookPath(tool)
		harness.Need(t, "container", err)
	}
	c := &container{t: t, uid: uid, dir: home(t, uid)}
	root := open(t)
	script := []string{"sh", "-c", containerScript, "sh", root, c.dir, d.Dir}
	c.init = harness.InNamespaces(t, []string{"--mount", "--uts", "--ipc", "--net"}, append(script, harness.Bin())...)
	return c
}

// exec makes a command run in the container, as "docker exec" does.
func (c *container) exec(command *exec.Cmd) *exec.Cmd { return c.within(command, "setsid", "--wait") }

// within makes a command run as a child of by in the container. If by does not create a session,
// the command stays in a session outside.
func (c *container) within(command *exec.Cmd, by ...string) *exec.Cmd {
	arguments := append([]string{
		"nsenter", "--target", strconv.Itoa(c.init), "--mount", "--pid", "--uts", "--ipc", "--net", "--wdns=/data", "setpriv",
		fmt.Sprint("--reuid=", c.uid), fmt.Sprint("--regid=", c.uid), "--clear-groups",
	}, append(append(by, command.Path), command.Args[1:]...)...)
	inside := exec.Command(arguments[0], arguments[1:]...)
	inside.Env = command.Env
	return inside
}

// inner returns the pid of a process in its own namespace.
func inner(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line)
	return fields[len(fields)-1]
}

// TestContainer: phosd runs on the host and a program in a container. The program is saved and
// restored from inside, into the same container, and from outside.
func TestContainer(t *testing.T) {
	for _, test := range []struct {
		what string
		uid  int
	}{{"gpu", 0}, {"none", 0}, {"gpu", ordinary}} {
		t.Run(fmt.Sprint(test.what, " ", test.uid), func(t *testing.T) {
			d := start(t)
			c := newContainer(t, d, test.uid)
			writeData(t, c.dir, test.uid)
			command := homeProgram(d, c.dir, "asked.py", test.what, "files")
			command.Path = python
			a := launch(t, c.exec(command))
			a.expect("ready")
			a.pid = c.program()
			a.step(5, 5)
			seen := inner(t, a.pid)
			if seen == strconv.Itoa(a.pid) {
				t.Fatalf("pid %s is the same inside and outside, want different pids", seen)
			}
			if text := c.cli(d, "--status"); test.what == "gpu" && !strings.Contains(text, "\n"+seen+" ") {
				t.Errorf("from inside, pid %s is not in the status: %s", seen, text)
			}
			c.cli(d, "--pre-dump", "--dir", "/data/image", "--pid", seen)
			a.step(2, 7)
			c.cli(d, "--dump", "--dir", "/data/image", "--pid", seen)
			a.await()
			outside := filepath.Join(c.dir, "image")
			if text, err := run(t, as(d.Command("--restore", "--dir", outside), uint32(test.uid))); err == nil ||
				!strings.Contains(text, "in a container") {
				t.Errorf("restore outside of the container: %v: %s", err, text)
			}
			for generation, steps := range map[int]int{1: 5, 2: 7} {
				a = launch(
					t,
					c.exec(d.Command("--restore", "--files=restore", "--dir", "/data/image", "--generation", strconv.Itoa(generation))),
				)
				c.waitRunning(d, a)
				if a.pid != c.program() || inner(t, a.pid) != seen {
					t.Errorf("pid %d is %s inside, want %s", a.pid, inner(t, a.pid), seen)
				}
				a.step(3, steps+3)
				// Save from outside, and restore inside once more.
				mustCheckpoint(
					t,
					d,
					a,
					uint32(test.uid),
					"--dump",
					filepath.Join(c.dir, fmt.Sprint("again", generation)),
				)
				a.await()
				a = launch(t, c.exec(d.Command("--restore", "--files=restore", "--dir", fmt.Sprint("/data/again", generation))))
				c.waitRunning(d, a)
				a.step(2, steps+5)
				a.finish(3)
				checkData(t, c.dir, steps+5)
			}
			d.Empty()
		})
	}
}

// TestContainerSessions: if a program's session leader is outside its container, the checkpoint is
// refused with the reason before any process is stopped. A shell's job is restored in a container,
// without the shell.
func TestContainerSessions(t *testing.T) {
	d := start(t)
	c := newContainer(t, d, 0)
	writeData(t, c.dir, 0)
	command := homeProgram(d, c.dir, "asked.py", "gpu", "files")
	command.Path = python
	a := launch(t, c.within(command))
	a.expect("ready")
	a.pid = c.program()
	c.checkRefused(d, a, "session whose leader is outside", "setsid")
	a.finish(3)
	writeData(t, c.dir, 0)
	job := launch(t, c.within(command, "setsid", "--wait", "sh", "-c", `"$@"; exit $?`, "sh"))
	job.expect("ready")
	job.pid = c.program()
	job.step(5, 5)
	seen := inner(t, job.pid)
	c.cli(d, "--pre-dump", "--dir", "/data/image", "--pid", seen)
	c.checkPIDTaken(d, seen)
	c.cli(d, "--dump", "--dir", "/data/image", "--pid", seen)
	job.await()
	back := launch(t, c.exec(d.Command("--restore", "--dir", "/data/image")))
	c.waitRunning(d, back)
	back.step(2, 7)
	c.checkRefused(d, back, "session whose leader is outside", "has lost its shell")
	back.step(1, 8)
	back.finish(3)
	d.Empty()
}

// checkRefused checks that a checkpoint is refused for the given reasons, and that the program
// continues.
func (c *container) checkRefused(d *harness.Daemon, a *stepper, why ...string) {
	c.t.Helper()
	dir := filepath.Join(c.dir, "refused")
	text, err := cli(c.t, d, "--pre-dump", "--dir", dir, "--pid", strconv.Itoa(a.pid))
	for _, each := range append(why, "cannot be saved") {
		if err == nil || !strings.Contains(text, each) {
			c.t.Errorf("%v: %q lacks %q", err, text, each)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		c.t.Error("the refused checkpoint left a directory behind")
	}
}

// checkPIDTaken checks that a restore with a pid in use is refused with a hint.
func (c *container) checkPIDTaken(d *harness.Daemon, pid string) {
	c.t.Helper()
	for flag, why := range map[string]string{
		"--eager": "pid " + pid + ": it is taken", "--new-pids": "has the container's pid namespace",
	} {
		text, err := run(c.t, c.exec(d.Command("--restore", "--dir", "/data/image", flag)))
		if err == nil || !strings.Contains(text, why) || !strings.Contains(text, "another container like") {
			c.t.Errorf("%s: %v: %q", flag, err, text)
		}
	}
}

// program returns the outer pid of the container's Python process.
func (c *container) program() (pid int) {
	c.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/root/data/asked.py")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range all {
		fields := strings.Split(path, "/")
		name, _ := os.ReadFile("/proc/" + fields[2] + "/comm")
		if strings.HasPrefix(string(name), "python") {
			pid, _ = strconv.Atoi(fields[2])
		}
	}
	if pid == 0 {
		c.t.Fatal("found no program in the container")
	}
	return pid
}

// waitRunning waits until the restored program runs. pos_cli prints its pid inside.
func (c *container) waitRunning(d *harness.Daemon, a *stepper) {
	c.t.Helper()
	d.Eventually("it runs again", func() bool {
		if zombie(a.command.Process.Pid) {
			c.t.Fatalf("%v: %s", a.command.Args, a.said)
		}
		return runsAgain.MatchString(a.said.String())
	})
	a.pid = c.program()
	if got := runsAgain.FindStringSubmatch(a.said.String())[1]; got != inner(c.t, a.pid) {
		c.t.Errorf("pos_cli printed pid %s, want %s", got, inner(c.t, a.pid))
	}
}

func (c *container) cli(d *harness.Daemon, arguments ...string) string {
	c.t.Helper()
	text, err := run(c.t, c.exec(d.Command(arguments...)))
	if err != nil {
		c.t.Fatalf("pos_cli %v: %v\n%s", arguments, err, text)
	}
	return text
}
