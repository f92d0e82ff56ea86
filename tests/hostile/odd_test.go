package hostile

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// tells is the beginning of programs that answer SIGUSR1 with a file "alive".
const tells = onGPU + `
import resource
def tell(*_): os.close(os.open("alive", os.O_CREAT | os.O_RDWR, 0o644))
signal.signal(signal.SIGUSR1, tell)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def ours():
    for line in list(open("/proc/self/maps")):
        path = line.split()[-1]
        if path.endswith("/session") or path.endswith("/arena"):
            begin, end = (int(at, 16) for at in line.split()[0].split("-"))
            yield path, ctypes.c_void_p(begin), end - begin
def limit(*kinds, to):
    ready = os.open("ready", os.O_CREAT | os.O_RDWR)
    os.close(ready)
    for kind in kinds: resource.setrlimit(kind, (to, to))
    while True: signal.pause()
allocate(1 << 20)
`

// odd are programs that make a checkpoint hard. Those that are refused say why, and what to do; the
// others are saved and restored.
var odd = []struct{ name, text, says, remedy string }{
	{"a memfd is the program", `
if "again" not in sys.argv:
    program = os.memfd_create("program")
    os.write(program, open("/usr/bin/python3", "rb").read())
    os.execve(program, ["python3", "-c", open("/proc/self/cmdline").read().split("\0")[2], "again"], os.environ)
ready()
`, "its program is a memfd", "start it from a file"},
	{"a memfd is a library", `
library = os.memfd_create("library")
os.write(library, open(libc_path, "rb").read())
ctypes.CDLL("/proc/self/fd/%d" % library)
ready()
`, "", ""},
	{"a system call filter", `
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
allow = (ctypes.c_uint64 * 1)(0x7fff000000000006)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(allow)))): sys.exit("no filter")
ready()
`, "has a seccomp filter", "run it without the sandbox"},
	{"a tracer in the tree", `
traced, (told, tell_parent) = os.getpid(), os.pipe()
libc.prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)
if os.fork() == 0:
    if libc.ptrace(0x4206, traced, 0, 0): sys.exit("no tracer")
    os.write(tell_parent, b"x")
    try:
        while True:
            stopped, status = os.waitpid(-1, 0x40000000)
            libc.ptrace(7, stopped, 0, os.WSTOPSIG(status))
    except ChildProcessError: os._exit(0)
os.read(told, 1)
ready()
`, "is traced by pid", "end the debugger's session"},
	{"no room for descriptors", `
os.close(0)
limit(resource.RLIMIT_NOFILE, to=3)
`, "RLIMIT_NOFILE", "raise it: prlimit --pid"},
	{"no room for addresses", "limit(resource.RLIMIT_AS, to=1 << 20)", "RLIMIT_AS", "raise it: prlimit --pid"},
	{"more pipes than a user may have", `
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
pipes = [os.pipe() for _ in range(2000)]
ready()
`, "more pipes than the kernel gives", "raise fs.pipe-user-pages-soft"},
	{"no other process, no longer file and no memory", `
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
limit(resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_STACK, resource.RLIMIT_DATA,
      resource.RLIMIT_SIGPENDING, to=0)
`, "", ""},
	{"a thousand threads", `
import threading
threading.stack_size(65536)
wait = threading.Event()
for _ in range(1000): threading.Thread(target=wait.wait, daemon=True).start()
ready()
`, "", ""},
	{"thousands of descriptors", `
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(3000)]
ready()
`, "", ""},
	{"forks all the time", `
root = os.getpid()
for _ in range(2):
    if os.fork() == 0:
        while os.getppid() == root:
            if os.fork() == 0:
                time.sleep(0.05)
                os._exit(0)
            os.wait()
        os._exit(0)
ready()
`, "", ""},
	{"the ring is unmapped", `
for _, at, count in ours(): libc.munmap(at, count)
ready()
`, "", ""},
	{"the ring is protected", `
for _, at, count in ours(): libc.mprotect(at, count, 0)
ready()
`, "", ""},
	{"the ring is truncated", `
for path, _, _ in ours(): os.truncate(path, 0)
ready()
`, "has truncated", "restore it from an earlier generation"}, // the worker ends, at once or when it saves
	{"odd memory is registered", registers, "", ""},
}

// registers registers memory that no ordinary program would.
const registers = `
file, short = open("file", "w+b"), open("short", "w+b")
file.truncate(1 << 20); short.truncate(100)
READ, WRITE, SHARED, PRIVATE, ANONYMOUS = 1, 2, 1, 2, 0x20
def memory(flags, fd=-1, access=READ | WRITE): return libc.mmap(None, 1 << 20, access, flags, fd, 0)
def register(at, count): return cuda.cuMemHostRegister_v2(ctypes.c_void_p(at), ctypes.c_size_t(count), 0)
def plain(): return memory(PRIVATE | ANONYMOUS)
for at, count in [
    (plain() + 3, 4097), (plain() + 4095, 1), (memory(SHARED | ANONYMOUS), 1 << 20), (memory(SHARED, file.fileno()), 1 << 20),
    (memory(PRIVATE, file.fileno()), 1 << 20), (memory(SHARED, short.fileno()), 1 << 20),
    (memory(PRIVATE | ANONYMOUS, -1, READ), 1 << 20), (memory(PRIVATE | ANONYMOUS, -1, 0), 1 << 20),
]: register(at, count)
for at, count in [(plain(), 0), (plain(), 2**64 - 4096), (plain(), 1 << 46), (0, 4096), (0xffff888000000000, 4096)]:
    if register(at, count) == 0: sys.exit("registered %x+%x" % (at, count))
twice = plain()
if register(twice, 1 << 20) or register(twice, 1 << 20) == 0 or register(twice + 4096, 4096) == 0: sys.exit("registered twice")
gone, closed = plain(), plain()
if register(gone, 1 << 20) or register(closed, 1 << 20): sys.exit("not registered")
libc.munmap(ctypes.c_void_p(gone), 1 << 20); libc.mprotect(ctypes.c_void_p(closed), 1 << 20, 0)
ready()
`

// TestOddPrograms: bob's programs do what no program should. Each is saved and restored, or a
// refusal names the cause and the remedy, and the program goes on. Alice's program and image do not
// notice.
func TestOddPrograms(t *testing.T) {
	a, d := alice(t), start(t)
	program := a.programIn(d, "program", "", tells+"ready()")
	image := a.file("image")
	a.mustCLI(d, "--pre-dump", "--dir", image, "--pid", pid(program))
	for _, test := range odd {
		t.Run(test.name, func(t *testing.T) {
			b := bob(t)
			text := strings.ReplaceAll(tells+test.text, "libc_path", `"/lib/x86_64-linux-gnu/libm.so.6"`)
			program := b.programIn(d, "odd", "", text)
			dump := []string{"--dump", "--dir", b.file("image"), "--pid", pid(program)}
			if test.says != "" {
				b.mustFail(d, dump, test.says, test.remedy)
			} else {
				b.mustCLI(d, dump...)
				b.mustCLI(d, "--restore", "--detach", "--dir", b.file("image"))
			}
			b.answers(program.Process.Pid, "odd")
			killRestoredOf(d, b.uid)
		})
	}
	a.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	a.mustCLI(d, "image", "verify", image)
	a.mustCLI(d, "--restore", "--detach", "--dir", image)
	a.answers(program.Process.Pid, "program")
	killRestored(d)
}

// answers checks that a program of the user in a directory of its own runs.
func (u *user) answers(pid int, name string) {
	u.t.Helper()
	waitFor(u.t, "the program answers", func() bool {
		// Again and again: Python's pause may miss one that comes just before it.
		if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
			u.t.Fatalf("pid %d: %v", pid, err)
		}
		return exists(u.file(name + "/alive"))
	})
}

// killRestoredOf kills the programs of a user, as restored ones outlive the command.
func killRestoredOf(d *harness.Daemon, uid uint32) {
	for _, program := range d.Status().GetPrograms() {
		if program.GetUid() == uid {
			_ = unix.Kill(int(program.GetPid()), unix.SIGKILL)
		}
	}
}

// TestLeftGroup: processes that bob's program has left behind keep its pid in use, as their process
// group. The restore says so, and works once they have ended.
func TestLeftGroup(t *testing.T) {
	b, d := bob(t), start(t)
	program := b.programIn(d, "leaves", "", tells+`
if os.fork() == 0:
    if os.fork() == 0: os.execv("/bin/sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
ready()
`)
	group := program.Process.Pid
	t.Cleanup(func() { _ = unix.Kill(-group, unix.SIGKILL) })
	b.mustCLI(d, "--dump", "--dir", b.file("image"), "--pid", pid(program))
	restore := []string{"--restore", "--detach", "--dir", b.file("image")}
	b.mustFail(d, restore, "it is the process group of pid", "(sleep)", "end it: kill -- -"+pid(program))
	if err := unix.Kill(-group, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the group has ended", func() bool { return errors.Is(unix.Kill(-group, 0), unix.ESRCH) })
	b.mustCLI(d, restore...)
	b.answers(group, "leaves")
	killRestored(d)
}
