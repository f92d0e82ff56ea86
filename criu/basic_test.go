package criu

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/pty"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// programs checkpoint themselves at step "one", check themselves after it, and exit with 7.
var programs = map[string]string{
	"threads and locks": `
import threading
lock, seen = threading.Lock(), []
cond = threading.Condition()
def wait():
    with cond: cond.wait()
    with lock: seen.append(threading.current_thread().name)
threads = [threading.Thread(target=wait, name=str(i)) for i in range(8)]
for t in threads: t.start()
local = threading.local(); local.x = 5
step('one')
with cond: cond.notify_all()
for t in threads: t.join()
assert sorted(seen) == [str(i) for i in range(8)] and local.x == 5
say('done'); sys.exit(7)
`,
	"files": `
import tempfile, mmap
data = open('data', 'w+b'); data.write(b'0123456789'); data.flush(); data.seek(3)
gone = tempfile.TemporaryFile(dir='.'); gone.write(b'ghost' * 1000); gone.seek(5)
area = open('area', 'w+b'); area.truncate(8192); m = mmap.mmap(area.fileno(), 8192); m[0:4] = b'abcd'; area.close()
anon = mmap.mmap(-1, 1 << 20); anon[100:103] = b'xyz'
null = open('/dev/null', 'r+b', 0); rand = open('/dev/urandom', 'rb')
import fcntl; fcntl.flock(data, fcntl.LOCK_EX)
step('one')
assert data.read(4) == b'3456', 'position'
assert gone.read(5) == b'ghost' and len(gone.read()) == 4990
m[4:8] = b'efgh'; m.flush()
assert open('area', 'rb').read(8) == b'abcdefgh'
assert anon[100:103] == b'xyz' and null.write(b'x') == 1 and len(rand.read(4)) == 4
data.seek(0, 2); data.write(b'end'); data.flush()
assert open('data', 'rb').read() == b'0123456789end'
say('done'); sys.exit(7)
`,
	"descriptors of the kernel": `
import select, signal, socket, ctypes
libc = ctypes.CDLL(None, use_errno=True)
event = libc.eventfd(3, 0)
timer = libc.timerfd_create(1, 0)
mem = os.memfd_create('mem'); os.write(mem, b'memfd'); os.lseek(mem, 0, 0)
a, b = socket.socketpair(); a.send(b'in flight')
r, w = os.pipe(); os.write(w, b'in the pipe')
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(4)
unixl = socket.socket(socket.AF_UNIX); unixl.bind('listening'); unixl.listen(4)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', 0))
ep = select.epoll(); ep.register(r, select.EPOLLIN); ep.register(listener.fileno(), select.EPOLLIN)
port = listener.getsockname()[1]
hits = []
signal.signal(signal.SIGALRM, lambda *x: hits.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2)
child = os.fork()
if child == 0: os._exit(3)
time.sleep(0.1)
step('one')
assert os.read(event, 8) == (3).to_bytes(8, sys.byteorder)
assert os.read(mem, 5) == b'memfd' and b.recv(20) == b'in flight'
assert [fd for fd, _ in ep.poll(1)] == [r] and os.read(r, 20) == b'in the pipe'
c = socket.create_connection(('127.0.0.1', port)); s, _ = listener.accept(); c.send(b'tcp'); assert s.recv(3) == b'tcp'
u = socket.socket(socket.AF_UNIX); u.connect('listening')
assert signal.sigpending() == {signal.SIGUSR2}
n = len(hits); time.sleep(0.7); assert len(hits) > n, 'timer'
signal.setitimer(signal.ITIMER_REAL, 0)  # as it exits, Python takes the handler away
assert os.waitpid(child, 0) == (child, 3 << 8), 'zombie'
say('done'); sys.exit(7)
`,
	"inotify": `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init(); assert libc.inotify_add_watch(watch, b'.', 0x100) > 0
step('one')
os.set_blocking(watch, False)
try: os.read(watch, 4096)
except BlockingIOError: pass
open('fresh', 'w').close(); assert b'fresh' in os.read(watch, 4096)
say('done'); sys.exit(7)
`,
	"tree of processes": `
import signal, subprocess
kids = []
for i in range(3):
    pid = os.fork()
    if pid == 0:
        if i == 2: os.setsid()
        deeper = os.fork()
        x = i * 1000 + (deeper == 0)
        step('one')
        if deeper: assert os.waitpid(deeper, 0)[1] == 0
        os._exit(0 if x == i * 1000 + (deeper == 0) else 1)
    kids.append(pid)
sleeper = subprocess.Popen(['sleep', '1000'])
step('one')
for pid in kids: assert os.waitpid(pid, 0) == (pid, 0)
sleeper.kill(); assert sleeper.wait() == -9
say('done'); sys.exit(7)
`,
	"tcp within": `
import socket
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(1)
pid = os.fork()
if pid == 0:
    c = socket.create_connection(l.getsockname()); l.close()
    for i in range(1000): c.send(b'%4d' % i); assert c.recv(4) == b'%4d' % i
    step('one')
    for i in range(1000): c.send(b'%4d' % i); assert c.recv(4) == b'%4d' % i
    os._exit(0)
s, _ = l.accept(); l.close()
while True:
    got = s.recv(4, socket.MSG_WAITALL)
    if not got: break
    s.send(got)
assert os.waitpid(pid, 0)[1] == 0
say('done'); sys.exit(7)
`,
}

// multiprocess is stored in a file, because its child processes import it.
const multiprocess = `
import multiprocessing as mp, os, sys
sys.path.insert(0, '.')
exec(open('prelude').read())
def work(q, r, lock, total, event):
    while True:
        x = q.get()
        if x is None: break
        with lock: total.value += x
        r.put((os.getpid(), x * x))
    event.wait()
if __name__ == '__main__':
    os.closerange(out.fileno() + 1, 1024)
    ctx = mp.get_context(sys.argv[1])
    q, r, lock, total, event = ctx.Queue(), ctx.Queue(), ctx.Lock(), ctx.Value('l', 0, lock=False), ctx.Event()
    workers = [ctx.Process(target=work, args=(q, r, lock, total, event)) for _ in range(2)]
    for w in workers: w.start()
    pool = ctx.Pool(2)
    assert pool.map(abs, range(-5, 0)) == [5, 4, 3, 2, 1]
    for i in range(50): q.put(i)
    got = [r.get()[1] for _ in range(50)]
    step('one')
    for i in range(50, 100): q.put(i)
    got += [r.get()[1] for _ in range(50)]
    assert sorted(got) == [i * i for i in range(100)] and total.value == sum(range(100))
    assert pool.map(abs, range(-5, 0)) == [5, 4, 3, 2, 1]
    for _ in workers: q.put(None)
    event.set()
    for w in workers: w.join(); assert w.exitcode == 0
    pool.close(); pool.join()
    say('done'); sys.exit(7)
`

func TestEveryday(t *testing.T) {
	for name, code := range someOf(programs) {
		t.Run(name, func(t *testing.T) {
			cpu := newCPU(t)
			s := begin(t, python(t, directory(t, 0), code))
			s.says("at one")
			s.roundTrip(cpu)
		})
	}
	for _, method := range []string{"fork", "spawn", "forkserver"}[:rounds.Of(0, 3)] {
		t.Run("multiprocessing "+method, func(t *testing.T) {
			cpu := newCPU(t)
			s := begin(t, multi(t, directory(t, 0), method))
			s.says("at one")
			s.roundTrip(cpu)
		})
	}
}

// someOf returns some programs of a table, or all of them.
func someOf(table map[string]string) map[string]string {
	some, names := map[string]string{}, slices.Sorted(maps.Keys(table))
	for i := rounds.First(4); i < len(names); i += rounds.Of(4, 1) {
		some[names[i]] = table[names[i]]
	}
	return some
}

func multi(t testing.TB, dir, method string) *exec.Cmd {
	for name, text := range map[string]string{"program.py": multiprocess, "prelude": prelude} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := python(t, dir, "")
	command.Args = []string{command.Args[0], "-u", "program.py", method}
	return command
}

// roundTrip saves a program at step "one", resumes it, saves it again, kills it, and restores it.
func (s *subject) roundTrip(cpu *CPU) {
	s.t.Helper()
	s.save(cpu, false)
	saved := s.save(cpu, true)
	back := saved.restore(s.t, cpu, saved.order(s.t))
	s.allow("one")
	ends(s.t, back, 7)
	s.says("done")
}

// pipes returns an input and an output pipe, with their other ends.
func pipes(t *testing.T) (inner, outer [2]*os.File) {
	t.Helper()
	for i := range inner {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		inner[i], outer[i] = r, w
		if i == 1 {
			inner[i], outer[i] = w, r
		}
	}
	t.Cleanup(func() { outer[0].Close(); outer[1].Close() })
	return inner, outer
}

// sockets is pipes with socket pairs.
func sockets(t *testing.T) (inner, outer [2]*os.File) {
	t.Helper()
	for i := range inner {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		inner[i], outer[i] = os.NewFile(uintptr(pair[0]), "inner"), os.NewFile(uintptr(pair[1]), "outer")
	}
	t.Cleanup(func() { outer[0].Close(); outer[1].Close() })
	return inner, outer
}

// TestOutput: output after a restore goes where the options say, or nowhere.
func TestOutput(t *testing.T) {
	const code = `
import signal
print('before', flush=True)
say('at one', sys.stdin.readline().strip())
while not os.path.exists('one'): time.sleep(0.005)
print('after', flush=True)
say('done', repr(sys.stdin.read()))
sys.exit(7)
`
	for _, c := range []struct {
		name  string
		ends  func(t *testing.T) (inner, outer [2]*os.File)
		given bool
	}{{"pipes", pipes, true}, {"pipes, not inherited", pipes, false}, {"sockets", sockets, true}, {"sockets, not inherited", sockets, false}} {
		t.Run(c.name, func(t *testing.T) {
			cpu := newCPU(t)
			inner, outer := c.ends(t)
			command := python(t, directory(t, 0), code)
			command.Stdin, command.Stdout = inner[0], inner[1]
			s := begin(t, command)
			inner[0].Close()
			inner[1].Close()
			fmt.Fprintln(outer[0], "hello")
			if line, err := bufio.NewReader(outer[1]).ReadString('\n'); line != "before\n" {
				t.Fatal(line, err)
			}
			s.says("at one hello")
			saved := s.save(cpu, true)
			if n := len(saved.tree.Endpoints); n != 2 {
				t.Fatalf("%d endpoints: %+v", n, saved.tree.Endpoints)
			}
			order, log := saved.order(t), logFile(t)
			order.Log = log
			inner, outer = c.ends(t)
			if c.given {
				for _, end := range saved.tree.Endpoints {
					giveTo(t, inner[end.Standard], order.UID)
					order.Endpoints[end.ID] = inner[end.Standard]
				}
			}
			back := saved.restore(t, cpu, order)
			inner[0].Close()
			inner[1].Close()
			fmt.Fprint(outer[0], "rest")
			outer[0].Close()
			s.allow("one")
			if c.given {
				if got := readAll(t, outer[1]); got != "after\n" {
					t.Errorf("got output %q", got)
				}
				s.says("done 'rest'")
			} else if strings.HasPrefix(c.name, "pipes") {
				s.says("done ''")
			}
			if c.given || strings.HasPrefix(c.name, "pipes") {
				ends(t, back, 7)
			}
			if !c.given {
				eventually(t, "the log has the output", func() bool {
					text, _ := os.ReadFile(log.Name())
					return strings.Contains(string(text), `msg="output of a restored program"`) &&
						strings.HasSuffix(string(text), " text=after\n")
				})
			}
		})
	}
}

// logFile collects output without a reader.
func logFile(t *testing.T) *os.File {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// console is a pseudo terminal.
type console struct {
	master, slave *os.File
	read          chan string
}

func newConsole(t *testing.T) *console {
	t.Helper()
	slave, master, err := pty.Open(31, 97)
	if err != nil {
		t.Fatal(err)
	}
	// A nonblocking file wakes its reader when it is closed. It needs its own descriptor: two files
	// with one descriptor would close it twice, the second time perhaps for another file.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master.Close()
	_ = unix.SetNonblock(fd, true)
	c := &console{master: os.NewFile(uintptr(fd), "master"), slave: slave, read: make(chan string, 1000)}
	go func() {
		scanner := bufio.NewScanner(c.master)
		for scanner.Scan() {
			c.read <- strings.TrimSpace(scanner.Text())
		}
		close(c.read)
	}()
	t.Cleanup(func() { c.master.Close(); slave.Close() })
	return c
}

func (c *console) shows(t *testing.T, want string) {
	t.Helper()
	late := time.After(patience)
	var lines []string
	for {
		select {
		case line, ok := <-c.read:
			lines = append(lines, line)
			// The terminal echoes its input before the line.
			if strings.HasSuffix(line, want) {
				return
			}
			if !ok {
				t.Fatalf("the terminal shows %q, want %q", lines, want)
			}
		case <-late:
			t.Fatalf("the terminal shows %q, want %q", lines, want)
		}
	}
}

const conversing = `
import signal, fcntl, struct, termios
signal.signal(signal.SIGINT, lambda *a: print('interrupted', flush=True))
signal.signal(signal.SIGWINCH, lambda *a: print('resized', flush=True))
print('leads', os.getsid(0) == os.getpid(), os.isatty(0), flush=True)
assert input() == 'hello'
say('at one')
while not os.path.exists('one'): time.sleep(0.005)
rows, columns = struct.unpack('HHHH', fcntl.ioctl(1, termios.TIOCGWINSZ, b'\0' * 8))[:2]
print('after', os.isatty(0), rows, columns, flush=True)
assert input() == 'again'
print('foreground', os.tcgetpgrp(0) == os.getpgrp(), flush=True)
while not os.path.exists('two'): time.sleep(0.005)
sys.exit(7)
`

// TestTerminal: a program started by a shell, and a session leader.
func TestTerminal(t *testing.T) {
	for _, shell := range []bool{true, false} {
		t.Run(fmt.Sprintf("shell %v", shell), func(t *testing.T) {
			cpu := newCPU(t)
			first := newConsole(t)
			command := python(t, directory(t, 0), conversing)
			if shell {
				// A shell with job control gives the program its own process group and the
				// foreground.
				line := "set -m; '" + command.Path + "' -u prog.py; exit 0"
				if err := os.WriteFile(filepath.Join(command.Dir, "prog.py"),
					[]byte("import os; os.closerange(3, 1024)\n"+prelude+conversing), 0o644); err != nil {
					t.Fatal(err)
				}
				command.Args, command.Path = []string{"bash", "-c", line}, "/bin/bash"
			}
			command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
			command.Stdin, command.Stdout, command.Stderr = first.slave, first.slave, first.slave
			s := begin(t, command)
			first.shows(t, fmt.Sprintf("leads %s True", map[bool]string{true: "False", false: "True"}[shell]))
			if shell {
				children, err := proc.Children(s.root.PID)
				if err != nil || len(children) != 1 {
					t.Fatal(children, err)
				}
				if s.root, err = proc.Of(children[0]); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintln(first.master, "hello")
			s.says("at one")
			saved := s.save(cpu, true)
			end := endpoint(t, saved.tree, "terminal")
			if end.Rows != 31 || end.Columns != 97 || end.Standard != 0 || len(saved.tree.Endpoints) != 1 {
				t.Errorf("got endpoints %+v", saved.tree.Endpoints)
			}
			second := newConsole(t)
			order := saved.order(t)
			order.Endpoints[end.ID] = second.slave
			back := saved.restore(t, cpu, order)
			s.allow("one")
			second.shows(t, "after True 31 97")
			fmt.Fprintln(second.master, "again")
			second.shows(t, "foreground True")
			second.master.Write([]byte{3})
			second.shows(t, "interrupted")
			s.allow("two")
			ends(t, back, 7)
		})
	}
}
