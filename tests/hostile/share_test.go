package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/tests/harness"
)

// onGPU is the beginning of Python programs that use a GPU.
const onGPU = `
import ctypes, os, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    if result: sys.exit("CUDA error %d" % result)
context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
def allocate(count):
    at = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(count)))
    check(cuda.cuMemsetD8_v2(at, 7, ctypes.c_size_t(count)))
    return at
def ready():
    open("ready", "w").close()
    while True: signal.pause()
`

// programIn starts a program of the user in a directory of its own, and waits until it is ready.
func (u *user) programIn(d *harness.Daemon, name, policy, text string, arguments ...string) *exec.Cmd {
	u.t.Helper()
	dir := u.file(name)
	for _, err := range []error{
		os.Mkdir(dir, 0o755), os.Chown(dir, int(u.uid), int(u.uid)),
		os.WriteFile(filepath.Join(dir, "pos.yaml"), []byte(policy), 0o644),
	} {
		if err != nil {
			u.t.Fatal(err)
		}
	}
	command := u.python(d, text, arguments...)
	command.Dir = dir
	background(u.t, command)
	waitFor(u.t, "the program is ready", func() bool { return exists(filepath.Join(dir, "ready")) })
	return command
}

// statusOf is what a user sees of a program.
type statusOf struct {
	PID        int    `json:"pid"`
	State      string `json:"state"`
	Checkpoint struct {
		Generation *uint64 `json:"generation"`
		Dir        string  `json:"dir"`
		Running    bool    `json:"running"`
		Error      string  `json:"error"`
	} `json:"checkpoint"`
}

// status returns what the user sees of its program.
func (u *user) status(d *harness.Daemon, program *exec.Cmd) (found statusOf) {
	u.t.Helper()
	command := u.cli(d, "--status", "--json")
	text, err := command.Output()
	var status struct {
		Programs []statusOf `json:"programs"`
	}
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	for _, found = range status.Programs {
		if found.PID == program.Process.Pid {
			return found
		}
	}
	return statusOf{}
}

// lines are what a running command has printed.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// all returns the complete lines.
func (l *lines) all() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all = append(all, line)
	}
	return all
}

// TestSilentStreams: bob asks for restores of streams that never come. They are limited, and
// alice's requests are served.
func TestSilentStreams(t *testing.T) {
	const limit, asked = 3, 40
	a, b := alice(t), bob(t)
	d := start(t, "--users-requests=3")
	command, said := b.intruder(d, "silent-restores", fmt.Sprint(asked)), &lines{}
	command.Stdout = said
	background(t, command)
	waitFor(t, "the requests beyond the limit have failed", func() bool { return len(said.all()) == asked-limit })
	for _, text := range said.all() {
		if !strings.Contains(text, "users.requests") || !strings.Contains(text, "has 3") {
			t.Fatalf("got %q, want the limit and the use", text)
		}
	}
	if err := os.Mkdir(a.file("image"), 0o777); err != nil {
		t.Fatal(err)
	}
	a.mustFail(d, []string{"--restore", "--dir", a.file("image")}, "no image") // served
}

// TestIdleStream: a stream that sends nothing ends by itself.
func TestIdleStream(t *testing.T) {
	b := bob(t)
	d := start(t, "--users-stream-idle=1s")
	said, err := run(t, b.intruder(d, "silent-restores", fmt.Sprint(1)))
	if err != nil || !strings.Contains(said, "users.stream_idle") {
		t.Errorf("got %q, %v, want users.stream_idle in it", said, err)
	}
}

// TestStrangersDump: bob's refused request to save alice's program leaves no trace on it.
func TestStrangersDump(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	program := a.programIn(d, "victim", "", onGPU+"ready()")
	b.mustFail(d, []string{"--dump", "--dir", b.file("image"), "--pid", pid(program)}, "not permitted")
	if got := a.status(d, program); got.Checkpoint.Error != "" || got.State != "running" {
		t.Errorf("got %+v, want a running program without an error", got)
	}
}

// TestSlowPolicy: bob's policy has a bandwidth with which a checkpoint takes hours. Alice's program
// is saved all the same, and phosd ends when it is told to.
func TestSlowPolicy(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	slow := b.programIn(d, "slow",
		"checkpoint:\n  dir: image\n  every: 1s\n  bandwidth: 1KiB\n  on: [exit-signal]\n", onGPU+
			"allocate(40 << 20)\nready()")
	waitFor(t, "bob's program is being saved", func() bool { return b.status(d, slow).Checkpoint.Running })
	quick := a.programIn(d, "quick", "checkpoint:\n  dir: image\n  every: 1s\n", onGPU+"ready()")
	waitFor(t, "alice's program is saved twice", func() bool {
		generation := a.status(d, quick).Checkpoint.Generation
		return generation != nil && *generation >= 2
	})
	if got := b.status(d, slow).Checkpoint; !got.Running || got.Generation != nil {
		t.Errorf("bob's checkpoint: got %+v, want the first one in flight", got)
	}
	if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Await()
	d.Launch()
	if got := b.status(d, slow).Checkpoint; got.Generation == nil {
		t.Errorf("bob's program: got %+v, want a checkpoint that the exit signal took", got)
	}
}

// TestGrowsBeforeFreeze: a program grows after phosd has inspected it, beyond the memory that was
// reserved for its processes.
func TestGrowsBeforeFreeze(t *testing.T) {
	proceed, a := filepath.Join(t.TempDir(), "go"), alice(t)
	d := start(t, "--checkpoint-memory-budget=96MiB")
	d.Kill()
	d.Relaunch(ckpt.FailpointsVariable + "=freeze=until:" + proceed)
	program := a.programIn(d, "grows", "", `
import signal
def grow(*_):
    global held
    held = b"x" * (200 << 20)
    open("grown", "w").close()
signal.signal(signal.SIGUSR1, grow)
open("ready", "w").close()
while True: signal.pause()
`)
	image := a.file("image")
	dump := a.cli(d, "--dump", "--dir", image, "--pid", pid(program))
	var said bytes.Buffer
	dump.Stdout, dump.Stderr = &said, &said
	if err := dump.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the image is begun", func() bool { return exists(filepath.Join(image, "packs")) })
	if err := program.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program has grown", func() bool { return exists(a.file("grows/grown")) })
	if err := os.WriteFile(proceed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dump.Wait(); err != nil {
		t.Errorf("dump: %v: %s", err, said.String())
	}
}

// TestFillsSessions: four programs of bob pin all memory that they can get, and then write into
// their arenas where nothing was reserved. Alice's program starts all the same.
func TestFillsSessions(t *testing.T) {
	for name, fill := range map[string]string{
		"pins": `
at = ctypes.c_void_p()
while cuda.cuMemHostAlloc(ctypes.byref(at), ctypes.c_size_t(8 << 20), 0) == 0: pass
while cuda.cuMemHostAlloc(ctypes.byref(at), ctypes.c_size_t(65536), 0) == 0: pass
ready()
`,
		"writes": `
arena = next(line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("/arena"))
file = open(arena, "r+b", buffering=0)
block = b"x" * (4 << 20)
try:
    while True:
        file.write(block)
        if file.tell() > 128 << 20: open("ready", "w").close()
except OSError: ready()
`,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := alice(t), bob(t)
			d := start(t, "--sessions-tmpfs-size=768MiB")
			for i := range 4 {
				dir := b.file(fmt.Sprint("fills", i))
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, int(b.uid), int(b.uid))); err != nil {
					t.Fatal(err)
				}
				command := b.python(d, onGPU+fill)
				command.Dir = dir
				background(t, command)
				gone := func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", command.Process.Pid)); return err != nil }
				waitFor(t, "bob's program has taken what it can", func() bool {
					return exists(filepath.Join(dir, "ready")) || gone() // refused
				})
			}
			program := a.programIn(d, "next", "", onGPU+`
at = ctypes.c_void_p()
while cuda.cuMemHostAlloc(ctypes.byref(at), ctypes.c_size_t(16 << 20), 0): time.sleep(0.01)
ready()
`)
			if got := a.status(d, program); got.State != "running" {
				t.Errorf("alice's program is %+v, want running", got)
			}
		})
	}
}

// TestAccessAfterReload: users that may no longer use phosd are refused once it has read its
// configuration again, and their programs go on.
func TestAccessAfterReload(t *testing.T) {
	a, b := alice(t), bob(t)
	settings := filepath.Join(t.TempDir(), "phosd.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	d := start(t, "--config="+settings)
	program := b.programIn(d, "program", "", onGPU+"ready()")
	reload := func(text string, holds func() bool) {
		t.Helper()
		write(text)
		if err := syscall.Kill(d.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the configuration is in effect", holds)
	}
	allowed := func(u *user) bool { _, err := run(t, u.cli(d, "--status")); return err == nil }
	reload(fmt.Sprintf("[access]\nusers = [\"%d\"]\n[users]\nrequests = 3\n", a.uid), func() bool { return !allowed(b) })
	b.mustFail(d, []string{"--status"}, "access.users")
	if text := a.mustCLI(d, "--status", "--json"); !strings.Contains(text, `"users.requests"`) {
		t.Errorf("alice's limits: %s", text)
	}
	reload("", func() bool { return allowed(b) })
	b.mustCLI(d, "--pre-dump", "--dir", b.file("image"), "--pid", pid(program))
}

// TestAccess: with a list of groups, a user of another group gets no session and no answer.
func TestAccess(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t, fmt.Sprint("--access-groups=", a.uid+10))
	a.mustCLI(d, "--status")
	if text, err := run(t, a.python(d, onGPU)); err != nil {
		t.Errorf("alice's program: %v: %s", err, text)
	}
	b.mustFail(d, []string{"--status"}, "access.groups")
	if text, err := run(t, b.python(d, onGPU)); err == nil || !strings.Contains(text, "access.groups") {
		t.Errorf("bob's program: %v: %q, want access.groups in it", err, text)
	}
}

// TestAccessMode: with mode 0660, only members of the first of the groups can connect at all. The
// mode and the group change with the configuration.
func TestAccessMode(t *testing.T) {
	a, b := alice(t), bob(t)
	settings := filepath.Join(t.TempDir(), "phosd.toml")
	write := func(first *user) {
		t.Helper()
		text := fmt.Sprintf("[access]\nmode = \"0660\"\ngroups = [\"%d\"]\n", first.uid+10)
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(a)
	d := start(t, "--config="+settings)
	check := func(in, out *user) {
		t.Helper()
		in.mustCLI(d, "--status")
		out.mustFail(d, []string{"--status"}, d.Socket, "permission denied", "access.groups")
		text, err := run(t, out.python(d, onGPU))
		if want := "no permission to use the daemon's socket"; err == nil || !strings.Contains(text, want) {
			t.Errorf("the other user's program: %v: %q, want %q", err, text, want)
		}
	}
	check(a, b)
	write(b)
	if err := syscall.Kill(d.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the configuration is in effect", func() bool { _, err := run(t, b.cli(d, "--status")); return err == nil })
	check(b, a)
}

// TestDeviceShare: the programs of one user together get the user's share of a GPU's memory, and
// --status shows it.
func TestDeviceShare(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t, "--users-device-memory=64MiB")
	first := onGPU + "allocate(48 << 20)\nready()"
	b.programIn(d, "first", "", first)
	a.programIn(d, "other", "", first)
	if text, err := run(t, b.python(d, onGPU+"allocate(48 << 20)")); err == nil {
		t.Errorf("bob's second program: got no error: %s", text)
	}
	if text, err := run(t, b.python(d, onGPU+"allocate(8 << 20)")); err != nil {
		t.Errorf("bob's third program: %v: %s", err, text)
	}
	d.LogContains("users.device_memory: this user's programs may have 67108864 bytes of GPU 0 and have 50331648")
	if text := b.mustCLI(d, "--status"); !strings.Contains(text, "users.device_memory") {
		t.Errorf("--status: %q, want users.device_memory in it", text)
	}
	var status struct {
		Limits []struct {
			UID   uint32  `json:"uid"`
			Key   string  `json:"key"`
			Used  uint64  `json:"used"`
			Limit *uint64 `json:"limit"`
		} `json:"limits"`
	}
	for _, see := range []struct {
		cli  *exec.Cmd
		uids []uint32
	}{{b.cli(d, "--status", "--json"), []uint32{b.uid}}, {d.Command("--status", "--json"), []uint32{a.uid, b.uid}}} {
		status.Limits = nil
		text, err := see.cli.Output()
		if err == nil {
			err = json.Unmarshal(text, &status)
		}
		if err != nil {
			t.Fatal(err)
		}
		var uids []uint32
		for _, limit := range status.Limits {
			if limit.Key == "users.device_memory" && limit.Used > 0 {
				uids = append(uids, limit.UID)
				if limit.Used != 48<<20 || limit.Limit == nil || *limit.Limit != 64<<20 {
					t.Errorf("got %+v, want 48 of 64 MiB", limit)
				}
			}
		}
		if !slices.Equal(uids, see.uids) {
			t.Errorf("limits of users %v are shown, want %v", uids, see.uids)
		}
	}
}

// TestDeviceShareOfFree: without a setting, a user alone may have all of a GPU. As soon as another
// has some, no user's programs take what the other needs: each gets as much as stays free, and at
// least a half. cuMemGetInfo and --status show it.
func TestDeviceShareOfFree(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t, "--gpus=soft:1,memory=256MiB")
	if text, err := run(t, b.python(d, onGPU+"allocate(250 << 20)")); err != nil {
		t.Fatalf("bob alone: %v: %s", err, text)
	}
	waitFor(t, "its memory is free again", func() bool { return strings.Contains(b.mustCLI(d, "--status"), " 0 B / 256 MiB") })
	a.programIn(d, "alice", "", onGPU+"allocate(16 << 20)\nready()")
	b.programIn(d, "bob", "", onGPU+"allocate(96 << 20)\nready()")
	if text, err := run(t, b.python(d, onGPU+"allocate(48 << 20)")); err == nil {
		t.Errorf("bob's programs have more than half of the GPU: %s", text)
	}
	d.LogContains("users.device_memory: this user's programs may have 134217728 bytes of GPU 0 and have 100663296")
	free := `
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(free.value >> 20, total.value >> 20)
`
	for _, see := range []struct {
		user *user
		want string
	}{{a, "112 256"}, {b, "32 256"}} {
		if text, err := run(t, see.user.python(d, onGPU+free)); err != nil || strings.TrimSpace(text) != see.want {
			t.Errorf("free and total MiB: got %q, %v, want %s", text, err, see.want)
		}
	}
	want := regexp.MustCompile(`users\.device_memory \(memory of one GPU\) +96 MiB +128 MiB`)
	if text := b.mustCLI(d, "--status"); !want.MatchString(text) {
		t.Errorf("--status: %q, want bob's share of the GPU in it", text)
	}
	if text, err := run(t, a.python(d, onGPU+"allocate(100 << 20)")); err != nil {
		t.Errorf("alice needs her part: %v: %s", err, text)
	}
}

// TestFalseLibrary: a program maps a huge file of its own that is called libphos.so. Its image has
// nothing of it, so phosd need not keep it at a restore.
func TestFalseLibrary(t *testing.T) {
	a := alice(t)
	d := start(t)
	program := a.programIn(d, "maps", "", onGPU+`
open("libphos.so.false", "w").truncate(300 << 20)
file = os.open("libphos.so.false", os.O_RDONLY)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
# Below all others: phosd looks at the first.
if libc.mmap(0x200000, 4096, 1, 2 | 0x100000, file, 0) != 0x200000: sys.exit("no mapping")
os.close(file)
ready()
`)
	image := a.file("image")
	a.mustCLI(d, "--dump", "--dir", image, "--pid", pid(program))
	if text := a.mustCLI(d, "image", "show", image); strings.Contains(text, "libphos.so.false") {
		t.Errorf("the image has the false library: %s", text)
	}
}

// TestDetachedFlood: a detached program floods phosd's log, and forges lines. The log stays small,
// and each line names the program.
func TestDetachedFlood(t *testing.T) {
	a := alice(t)
	d := start(t)
	dir := a.file("floods")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, int(a.uid), int(a.uid))); err != nil {
		t.Fatal(err)
	}
	program := a.python(d, onGPU+`
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
try:
    for i in range(64 << 10):
        os.write(1, b"time=now level=ERROR msg=forged\n\x1b[2J" + b"x" * 990 + b"\n")
finally:
    open("done", "w").close()
`)
	program.Dir = dir
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	background(t, program)
	waitFor(t, "the program is ready", func() bool { return exists(filepath.Join(dir, "ready")) })
	a.mustCLI(d, "--dump", "--dir", a.file("image"), "--pid", pid(program))
	waitFor(t, "the program has ended", func() bool { return program.Process.Signal(syscall.Signal(0)) != nil })
	a.mustCLI(d, "--restore", "--dir", a.file("image"), "--detach")
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program has printed", func() bool { return exists(filepath.Join(dir, "done")) })
	d.LogContains("output of a restored program")
	log, err := os.ReadFile(d.Log)
	if err != nil {
		t.Fatal(err)
	}
	if len(log) > 8<<20 || bytes.Contains(log, []byte("\x1b")) || bytes.Contains(log, []byte("\ntime=now")) {
		t.Errorf("the log has %d bytes, or control characters, or forged lines", len(log))
	}
}

// fills is a program that fills 40 MiB of its GPU with random bytes.
const fills = onGPU + `
at = allocate(40 << 20)
check(cuda.cuMemcpyHtoD_v2(at, os.urandom(40 << 20), ctypes.c_size_t(40 << 20)))
ready()
`

// sharedDirectory returns a directory for the images of a policy in phosd.toml.
func sharedDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "phos-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// imagesIn returns the names of a user's images in a shared directory.
func (u *user) imagesIn(base string) (names []string) {
	u.t.Helper()
	entries, err := os.ReadDir(filepath.Join(base, fmt.Sprint(u.uid)))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestImageShare: the images of one user in checkpoint.dir take the user's share at most, during
// the first checkpoint and after it. Alice's programs are saved all the same.
func TestImageShare(t *testing.T) {
	for name, test := range map[string]struct {
		flags []string
		saved bool
	}{
		"during a checkpoint": {[]string{"--checkpoint-bandwidth=4MiB", "--users-image-bytes=1MiB"}, false},
		"before the next one": {[]string{"--users-image-bytes=16KiB"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := alice(t), bob(t)
			d := start(t, append(test.flags, "--checkpoint-dir="+sharedDirectory(t), "--checkpoint-every=1s")...)
			text := fills
			if test.saved {
				text = onGPU + "ready()" // saved before phosd looks at the disk
			}
			program := b.programIn(d, "fills", "", text)
			waitFor(t, "bob's share is used up", func() bool {
				return strings.Contains(b.status(d, program).Checkpoint.Error, "users.image_bytes")
			})
			if got := b.status(d, program); got.State != "running" || (got.Checkpoint.Generation != nil) != test.saved {
				t.Errorf("got %+v, want a running program, saved: %v", got, test.saved)
			}
			if test.saved {
				return // alice's share is the same
			}
			other := a.programIn(d, "other", "checkpoint: {dir: image, every: 1s}\n", onGPU+"ready()")
			waitFor(t, "alice's program is saved", func() bool { return a.status(d, other).Checkpoint.Generation != nil })
		})
	}
}

// TestImageShareOldest: bob's share is used up. The image of a program that has ended is removed
// for the image of the next one, and alice's image stays. The image of a program that runs stays,
// too.
func TestImageShareOldest(t *testing.T) {
	a, b := alice(t), bob(t)
	base := sharedDirectory(t)
	d := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-keep=1", "--users-image-bytes=72MiB")
	for _, u := range []*user{a, b} {
		program := u.programIn(d, "first", "", fills)
		waitFor(t, "the first program is saved", func() bool { return u.status(d, program).Checkpoint.Generation != nil })
		if err := program.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "it has ended", func() bool { return u.status(d, program).PID == 0 })
	}
	first := b.imagesIn(base)
	next := b.programIn(d, "next", "", fills)
	waitFor(t, "the next program is saved", func() bool { return b.status(d, next).Checkpoint.Generation != nil })
	waitFor(t, "the first image is removed", func() bool { return !slices.Contains(b.imagesIn(base), first[0]) })
	d.LogContains("reason=quota")
	third := b.programIn(d, "third", "", fills)
	waitFor(t, "the share is used up", func() bool {
		return strings.Contains(b.status(d, third).Checkpoint.Error, "users.image_bytes") ||
			strings.Contains(b.status(d, next).Checkpoint.Error, "users.image_bytes")
	})
	suffix := fmt.Sprintf("-%d-", next.Process.Pid)
	if left := b.imagesIn(base); !slices.ContainsFunc(left, func(name string) bool {
		return strings.Contains(name, suffix)
	}) {
		t.Errorf("got %q, want the image of the running pid %d", left, next.Process.Pid)
	}
	if left := a.imagesIn(base); len(left) != 1 {
		t.Errorf("alice's images: got %q, want one", left)
	}
}

// TestStreamShare: bob's images on their way from and to streams take bob's share at most.
func TestStreamShare(t *testing.T) {
	b := bob(t)
	d := start(t, "--users-stream-bytes=1MiB")
	program := b.programIn(d, "fills", "", fills)
	dump := b.cli(d, "--pre-dump", "--dir", "-", "--bandwidth", "8MiB", "--pid", pid(program))
	refused, err := os.Create(b.file("refused"))
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	var said bytes.Buffer
	dump.Stdout, dump.Stderr = refused, &said
	if err := dump.Run(); err == nil || !strings.Contains(said.String(), "users.stream_bytes") {
		t.Errorf("to a stream: got %v, %q, want users.stream_bytes", err, said.String())
	}
	if got := b.status(d, program); got.State != "running" {
		t.Errorf("got %+v, want a running program", got)
	}
	// Root is not limited, and bob gets root's stream.
	stream, err := os.Create(b.file("stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	whole := d.Command("--dump", "--dir", "-", "--pid", pid(program))
	whole.Stdout = stream
	if err := whole.Run(); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(b.file("stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	restore := b.cli(d, "--restore", "--dir", "-", "--detach")
	restore.Stdin = from
	if text, err := run(t, restore); err == nil || !strings.Contains(text, "users.stream_bytes") {
		t.Errorf("from a stream: got %v, %q, want users.stream_bytes", err, text)
	}
}

// TestFileShare: phosd keeps only bob's share of files open for bob's requests: an image with many
// packs is not restored. Alice's share is alice's.
func TestFileShare(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t, "--users-files=3")
	for _, u := range []*user{b, a} {
		program := u.programIn(d, "saved", "", onGPU+"ready()")
		generations := 1
		if u == b {
			generations = 4
		}
		for range generations {
			u.mustCLI(d, "--pre-dump", "--dir", u.file("image"), "--pid", pid(program))
		}
		if packs, err := os.ReadDir(u.file("image/packs")); err != nil || (len(packs) > 2) != (u == b) {
			t.Fatalf("got %d packs, %v", len(packs), err)
		}
		if err := program.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "it has ended", func() bool { return program.Process.Signal(syscall.Signal(0)) != nil })
	}
	b.mustFail(d, []string{"--restore", "--detach", "--dir", b.file("image")}, "users.files", "may have 3")
	a.mustCLI(d, "--restore", "--detach", "--dir", a.file("image"))
	killRestored(d)
}
