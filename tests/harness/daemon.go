package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
)

// Daemon is a phosd that belongs to one test.
type Daemon struct {
	Dir    string // its runtime directory
	Socket string
	Log    string // file of its log and its workers'
	State  string // its state directory
	// Inner is the phosd that provides this phosd's driver; nil unless nested.
	Inner *Daemon

	// Extra is added to the environment of the daemon's process at the next Launch.
	Extra []string

	t         testing.TB
	arguments []string
	process   *exec.Cmd
}

// NestedVariable, if set in the environment, makes every Start a StartNested.
const NestedVariable = "PHOS_TEST_NESTED"

// Start starts a phosd with a software GPU and stops it at the end of the test. Arguments are flags
// of phosd and override the defaults.
func Start(t testing.TB, arguments ...string) *Daemon {
	t.Helper()
	if Nested() {
		return StartNested(t, arguments...)
	}
	return start(t, nil, arguments)
}

// StartNested starts two daemons. The outer one uses the backend for real GPUs, with our own
// libphos.so as its driver. The inner one serves that driver with the software GPU of the
// arguments.
func StartNested(t testing.TB, arguments ...string) *Daemon {
	t.Helper()
	inner := []string{}
	outer := []string{}
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "--gpus=") {
			inner = append(inner, argument)
		} else {
			outer = append(outer, argument)
		}
	}
	return StartOver(t, StartAlone(t, inner...), filepath.Join(Bin(), "libphos.so"), outer...)
}

// StartAlone starts a phosd with a software GPU, also if all other tests run nested or on real
// GPUs.
func StartAlone(t testing.TB, arguments ...string) *Daemon {
	t.Helper()
	return start(t, nil, arguments)
}

// StartOver starts a phosd whose driver is the given library, which connects to the inner phosd.
func StartOver(t testing.TB, inner *Daemon, library string, arguments ...string) *Daemon {
	t.Helper()
	return start(t, inner, append([]string{"--gpus=cuda:driver=" + library}, arguments...))
}

func start(t testing.TB, inner *Daemon, arguments []string) *Daemon {
	t.Helper()
	Need(t, "root", Root())
	Need(t, "build", Built())
	// Not t.TempDir: socket paths have a length limit, and /run is a tmpfs.
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("PHOS_TEST_RUN"), "/run"), "phos-test-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{
		Dir: dir, Socket: filepath.Join(dir, "phosd.sock"), Log: filepath.Join(t.TempDir(), "phosd.log"), t: t,
		State: filepath.Join(t.TempDir(), "state"), Inner: inner,
	}
	d.arguments = append([]string{
		"--gpus=" + cmp.Or(
			os.Getenv(GPUsVariable),
			"soft:1",
		), "--log-level=debug", "--config=" + os.DevNull, "--state-dir=" + d.State,
	}, withoutGPUFlag(arguments)...)
	if criu, err := CRIU(); err == nil {
		d.arguments = append([]string{"--criu=" + criu}, d.arguments...)
	}
	// Programs of other users must reach the socket.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.end)
	d.Launch()
	return d
}

// GPUsVariable names the backend for all daemons of tests, instead of software GPUs: "cuda" on a
// machine with real ones.
const GPUsVariable = "PHOS_TEST_GPUS"

// withoutGPUFlag removes the flag for software GPUs if GPUsVariable selects another backend.
func withoutGPUFlag(arguments []string) []string {
	if os.Getenv(GPUsVariable) == "" {
		return arguments
	}
	return slices.DeleteFunc(
		slices.Clone(arguments),
		func(a string) bool { return strings.HasPrefix(a, "--gpus=soft") },
	)
}

// Driver returns the library that phosd uses as driver if GPUsVariable is set; empty means the
// system's. ok is false for software GPUs.
func Driver() (library string, ok bool) {
	kind, options, _ := strings.Cut(os.Getenv(GPUsVariable), ":")
	return strings.TrimPrefix(options, "driver="), kind == "cuda"
}

// NativeEnvironment returns the environment of a program that uses the driver without phos, next to
// programs under phos.
func NativeEnvironment() []string {
	if library, _ := Driver(); library != "" {
		return append(os.Environ(), "LD_PRELOAD="+library)
	}
	return os.Environ()
}

// Launch starts the daemon's process. Start has already done this, but a test may have killed it.
func (d *Daemon) Launch() {
	d.t.Helper()
	if line, err := d.TryLaunch(); err != nil {
		d.t.Fatalf("phosd is not ready: %q %v\n%s", line, err, d.logText())
	}
}

// TryLaunch starts the daemon's process with a command prefix. If it does not get ready, it has
// exited, and TryLaunch returns its output.
func (d *Daemon) TryLaunch(prefix ...string) (said string, err error) {
	d.t.Helper()
	ready, readyEnd, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	defer ready.Close()
	log, err := os.OpenFile(d.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	before := d.logText()
	arguments := append([]string{"--socket=" + d.Socket, "--runtime-dir=" + d.Dir, "--ready-fd=3"}, d.arguments...)
	command := slices.Concat(prefix, []string{filepath.Join(Bin(), "phosd")}, arguments)
	d.process = exec.Command(command[0], command[1:]...)
	d.process.Stderr, d.process.Stdout, d.process.ExtraFiles = log, log, []*os.File{readyEnd}
	d.process.Env = slices.Concat(os.Environ(), d.Extra)
	if d.Inner != nil { // the driver connects to the inner daemon
		d.process.Env = append(d.process.Env, api.SocketVariable+"="+d.Inner.Socket)
	}
	err = d.process.Start()
	readyEnd.Close()
	if err != nil {
		d.t.Fatalf("start phosd: %v", err)
	}
	line, err := AwaitReady(ready)
	if err == nil {
		return "", nil
	}
	d.Kill()
	return line + strings.TrimPrefix(d.logText(), before), errors.Join(err, errors.New("phosd did not get ready"))
}

// Kill sends SIGKILL to the daemon's process. Its workers continue.
func (d *Daemon) Kill() {
	d.t.Helper()
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
}

// Relaunch kills the daemon's process if it runs, and starts the next one with more environment
// variables.
func (d *Daemon) Relaunch(extra ...string) {
	d.t.Helper()
	d.Kill()
	d.Extra = extra
	d.Launch()
}

// Await waits for the exit of the daemon's process.
func (d *Daemon) Await() {
	d.t.Helper()
	defer d.limit(d.process, 3*Patience)()
	if err := d.process.Wait(); err != nil {
		d.t.Errorf("phosd exited: %v", err)
	}
}

// Reboot simulates a reboot: it ends phosd's process and removes everything below /run. No program
// may run.
func (d *Daemon) Reboot() {
	d.t.Helper()
	d.Kill()
	d.unmount()
	if err := os.RemoveAll(d.Dir); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Mkdir(d.Dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.Launch()
}

// unmount unmounts what a killed phosd had mounted.
func (d *Daemon) unmount() {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], d.Dir+"/") {
			_ = unix.Unmount(fields[1], unix.MNT_DETACH)
		}
	}
}

// PID returns the pid of the daemon's process.
func (d *Daemon) PID() int { return d.process.Process.Pid }

// logText returns the daemon's log so far.
func (d *Daemon) logText() string {
	text, _ := os.ReadFile(d.Log)
	return string(text)
}

// LogContains waits until the log contains a text.
func (d *Daemon) LogContains(text string) {
	d.t.Helper()
	d.Eventually("the log says "+text, func() bool { return strings.Contains(d.logText(), text) })
}

// Eventually waits until holds returns true, and fails the test after a time limit.
func (d *Daemon) Eventually(what string, holds func() bool) {
	d.t.Helper()
	if !becomes(holds) {
		d.t.Fatalf("timed out: %s\n%s", what, Tail(d.logText()))
	}
}

// Status returns the daemon's status.
func (d *Daemon) Status() *api.StatusReply {
	d.t.Helper()
	client, err := api.Dial(d.Socket)
	if err != nil {
		d.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	status, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		d.t.Fatalf("status: %v\n%s", err, Tail(d.logText()))
	}
	return status
}

// NeedGPUs skips a test if the daemon has fewer GPUs. With software GPUs a test gets as many as it
// asks for.
func (d *Daemon) NeedGPUs(t testing.TB, count int) {
	t.Helper()
	if has := len(d.Status().GetGpus()); has < count {
		Need(t, "gpus", fmt.Errorf("need %d GPUs, have %d", count, has))
	}
}

// Empty waits until no session, worker or GPU memory of a program is left.
func (d *Daemon) Empty() {
	d.t.Helper()
	d.Eventually("no program is left", func() bool {
		status := d.Status()
		for _, gpu := range status.GetGpus() {
			if gpu.GetUsedBytes() != 0 {
				return false
			}
		}
		return len(status.GetPrograms()) == 0
	})
	// Other processes, such as the restorer of a tree, may exit a little later.
	var left []string
	defer func() {
		if len(left) > 0 {
			d.t.Errorf("left behind: %s", strings.Join(left, ", "))
		}
	}()
	d.Eventually("nothing is left", func() bool {
		left = d.leftovers()
		return len(left) == 0
	})
}

// leftovers returns the files and processes of programs that still exist.
func (d *Daemon) leftovers() (found []string) {
	for _, sub := range []string{"sessions", "control", "state"} {
		left, err := os.ReadDir(filepath.Join(d.Dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			found = append(found, err.Error())
		}
		for _, entry := range left {
			found = append(found, sub+"/"+entry.Name())
		}
	}
	for _, pid := range d.workers() {
		found = append(found, fmt.Sprintf("worker %d", pid))
	}
	return found
}

// workers returns the worker processes that this daemon, or one before it, started.
func (d *Daemon) workers() []int {
	var pids []int
	phosd := filepath.Join(Bin(), "phosd")
	entries, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range entries {
		var pid int
		if _, err := fmt.Sscanf(exe, "/proc/%d/exe", &pid); err != nil || pid == d.PID() {
			continue
		}
		if path, _ := os.Readlink(exe); path != phosd {
			continue
		}
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(command)+string(environment), d.Dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// end stops the daemon with pos_cli, together with everything that still runs, and removes its
// directory.
func (d *Daemon) end() {
	d.t.Helper()
	if d.t.Failed() {
		d.t.Logf("log of phosd:\n%s", Tail(d.logText()))
		KeepLog(d.t, "phosd", d.logText())
	}
	if output, err := d.Run(d.Command("--stop", "--force")); err != nil {
		d.t.Errorf("stop phosd: %v: %s", err, output)
		_ = d.process.Process.Kill()
	}
	defer d.limit(d.process, Patience)()
	_ = d.process.Wait()
	d.unmount()
	_ = os.RemoveAll(d.Dir)
}

// Run runs a command until it exits, and returns its output.
func (d *Daemon) Run(command *exec.Cmd) (output []byte, err error) {
	var said bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &said, &said, Patience/10
	if err := command.Start(); err != nil {
		return nil, err
	}
	defer d.limit(command, 3*Patience)()
	err = command.Wait()
	return said.Bytes(), err
}

// limit aborts a process that runs too long, with a dump of its goroutines. The caller calls done
// when the process has exited.
func (d *Daemon) limit(command *exec.Cmd, most time.Duration) (done func()) {
	timer := time.AfterFunc(most, func() {
		d.t.Errorf("%v did not exit in time", command.Args)
		for _, each := range []*os.Process{command.Process, d.process.Process} {
			_ = each.Signal(syscall.SIGQUIT)
		}
		time.AfterFunc(Patience/10, func() { _ = command.Process.Kill() })
	})
	return func() { timer.Stop() }
}

// Command prepares a pos_cli that connects to this daemon, and knows no cluster.
func (d *Daemon) Command(arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(Bin(), "pos_cli"), arguments...)
	command.Env = append(os.Environ(), api.SocketVariable+"="+d.Socket, "XDG_CONFIG_HOME="+filepath.Join(d.Dir, "config"))
	return command
}

// Program is a program that runs under the daemon.
type Program struct {
	*exec.Cmd
	Output strings.Builder // standard output and error together
	t      testing.TB
}

// Environment returns what `env $phos` sets for a program, and the address of this daemon.
func (d *Daemon) Environment() []string {
	return append(append(os.Environ(), ProgramVariables()...), api.SocketVariable+"="+d.Socket)
}

// ProgramVariables returns what `env $phos` sets for a program.
func ProgramVariables() []string {
	return []string{
		"LD_PRELOAD=" + filepath.Join(Bin(), "libphos.so"),
		"LD_LIBRARY_PATH=" + filepath.Join(Bin(), "lib") + ":" + os.Getenv("LD_LIBRARY_PATH"),
		"CUPY_COMPILE_WITH_PTX=1", "USE_LIBUV=0", "NCCL_IB_DISABLE=1", "NCCL_NVLS_ENABLE=0",
	}
}

// Program prepares a program. The test may change it, and starts it with Run or Start.
func (d *Daemon) Program(path string, arguments ...string) *Program {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	d.t.Cleanup(cancel)
	p := &Program{Cmd: exec.CommandContext(ctx, path, arguments...), t: d.t}
	if compileOnly() {
		p.Path = "/bin/false"
	}
	p.Env, p.Stdout, p.Stderr = d.Environment(), &p.Output, &p.Output
	p.WaitDelay = Patience / 10 // output arrives late on a busy machine
	return p
}

// In returns a copy that reports failures to a subtest.
func (p *Program) In(t testing.TB) *Program {
	p.t = t
	return p
}

// OK runs the program. It must exit with status 0 and print a line "ok".
func (p *Program) OK() {
	p.t.Helper()
	err := p.Run()
	p.t.Logf("%s\n%s", filepath.Base(p.Path), Tail(p.Output.String()))
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", filepath.Base(p.Path), err, p.runNatively())
	}
	if !strings.Contains("\n"+p.Output.String(), "\nok ") {
		p.t.Fatalf("%s did not print ok\n%s", filepath.Base(p.Path), p.runNatively())
	}
}

// StartUntil starts the program and waits until it has printed a line; later output is discarded.
func (p *Program) StartUntil(line string) {
	p.t.Helper()
	p.Stdout = nil
	pipe, err := p.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.Process.Kill() })
	reader := bufio.NewReader(pipe)
	for {
		said, err := reader.ReadString('\n')
		if strings.TrimSpace(said) == line {
			go func() { _, _ = io.Copy(&p.Output, reader) }()
			return
		}
		if err != nil {
			p.t.Fatalf("%s exited without printing %q: %s", filepath.Base(p.Path), line, p.Output.String())
		}
	}
}

// As lets the program run as another user.
func (p *Program) As(uid, gid uint32) *Program {
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return p
}
