package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Devices that every kernel has: the guard is told that the one is NVIDIA's.
const (
	memoryMajor = 1  // of /dev/null and its like
	otherMajor  = 10 // of /dev/fuse and many others
)

const madeUp = "Character devices:\n  1 nvidia-made-up\n 10 misc\n\nBlock devices:\n  1 ramdisk\n"

// ground is a part of the cgroups that belongs to one test.
type ground struct {
	t       *testing.T
	top     string
	outside string
	// null and other are nodes of the guarded and of another major, block one that has the guarded
	// number and is no character device.
	null, other, block string
	devices            string
}

func newGround(t *testing.T) *ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: device nodes, cgroups, programs in the kernel")
	}
	here, err := cgroup.Of(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	g := &ground{
		t: t, top: filepath.Join(here, fmt.Sprintf("guard-test.%d", os.Getpid())),
		null: filepath.Join(
			directory,
			"nvidia0",
		), other: filepath.Join(directory, "other"), block: filepath.Join(directory, "block"),
		devices: filepath.Join(directory, "devices"),
	}
	t.Cleanup(func() { g.remove(g.top) }) // after those below
	g.outside = g.group("outside")
	g.list(madeUp)
	for path, node := range map[string]struct {
		mode         uint32
		major, minor uint32
	}{
		g.null:  {unix.S_IFCHR, memoryMajor, 3},
		g.other: {unix.S_IFCHR, otherMajor, 4095}, // no driver has this minor: an allowed open gets ENXIO
		g.block: {unix.S_IFBLK, memoryMajor, 4095},
	} {
		if err := unix.Mknod(path, node.mode|0o666, int(unix.Mkdev(node.major, node.minor))); err != nil {
			t.Skip("needs device nodes:", err)
		}
	}
	return g
}

// group makes a cgroup below the ground's.
func (g *ground) group(name string) string {
	g.t.Helper()
	path := filepath.Join(g.top, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		g.t.Skip("needs cgroups:", err)
	}
	g.t.Cleanup(func() { g.remove(path) })
	return path
}

func (g *ground) remove(path string) {
	if err := cgroup.Dissolve(path, func(pid int) error { return cgroup.Put(filepath.Dir(g.top), pid) }); err != nil {
		g.t.Error(err)
	}
}

func (g *ground) list(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.devices, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) options(log io.Writer) Options {
	return Options{Top: g.top, Place: g.top, Devices: g.devices, Log: slog.New(slog.NewTextHandler(log, nil))}
}

// open makes a guard that has not begun, or skips where it is not allowed.
func (g *ground) open(log io.Writer) *Guard {
	g.t.Helper()
	made, err := Open(g.options(log))
	if errors.Is(err, ErrForbidden) || errors.Is(err, ebpf.ErrNotSupported) {
		g.t.Skip(err)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return made
}

func (g *ground) begin(made *Guard) {
	g.t.Helper()
	if err := made.Begin(); err != nil {
		g.t.Fatal(err)
	}
}

// in has a command start in a cgroup.
func (g *ground) in(group string, command *exec.Cmd) *exec.Cmd {
	g.t.Helper()
	directory, err := os.Open(group)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = directory.Close() })
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
	return command
}

// try is how opening fares for a command, in the kernel's words; dd says them.
func try(command *exec.Cmd) string {
	said, err := command.CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return lines[0][strings.LastIndex(lines[0], ": ")+2:]
}

func reading(path string) *exec.Cmd { return exec.Command("dd", "if="+path, "count=0", "status=none") }

func writing(path string) *exec.Cmd {
	return exec.Command("dd", "if="+os.Args[0], "of="+path, "count=0", "status=none", "conv=notrunc")
}

const (
	refused  = "Operation not permitted"
	noDevice = "No such device or address"
	noSuch   = "No such device"
)

// expect holds how opening fares against how it should.
func (g *ground) expect(what string, command *exec.Cmd, want ...string) {
	g.t.Helper()
	if got := try(command); !slices.Contains(want, got) {
		g.t.Errorf("%s: %q, want one of %q", what, got, want)
	}
}

func TestRoom(t *testing.T) {
	g := newGround(t)
	made := g.open(io.Discard)
	below := g.group("outside/below")
	g.expect("before it begins", g.in(g.outside, reading(g.null)), "")
	g.begin(made)
	g.expect("outside, to read", g.in(g.outside, reading(g.null)), refused)
	g.expect("outside, to write", g.in(g.outside, writing(g.null)), refused)
	g.expect("below outside", g.in(below, reading(g.null)), refused)
	g.expect("another major", g.in(g.outside, reading(g.other)), noDevice, noSuch)
	g.expect("a block device of that number", g.in(g.outside, reading(g.block)), noDevice, noSuch)
	g.expect("making a node", g.in(g.outside, exec.Command("mknod", g.null+"1", "c", "1", "3")), "")
	g.expect("opening that node", g.in(g.outside, reading(g.null+"1")), refused)
	within := reading(g.null)
	made.Enter(within)
	g.expect("in the room", within, "")
	g.expect("not below the top", reading(g.null), "")
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	g.expect("after its end", g.in(g.outside, reading(g.null)), "")
}

// TestAllow: a worker of an earlier phosd comes in while it runs, and is put out again at the end.
func TestAllow(t *testing.T) {
	g := newGround(t)
	made := g.open(io.Discard)
	g.begin(made)
	worker := g.in(
		g.outside,
		exec.Command("sh", "-c", "read go; dd if="+g.null+" count=0 status=none && echo let in; read go"),
	)
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := made.Allow(worker.Process.Pid); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "\n")
	var said [7]byte
	if _, err := io.ReadFull(out, said[:]); err != nil {
		t.Errorf("once allowed: %q, %v", said, err)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	if where, err := cgroup.Of(worker.Process.Pid); err != nil || where != g.top {
		t.Errorf("after the end it is in %s, %v; want %s", where, err, g.top)
	}
	_ = in.Close()
	_ = worker.Wait() // read has come to the end of its input
}

// TestModules: majors come and go with modules; the registered one is guarded before its driver is
// there.
func TestModules(t *testing.T) {
	g := newGround(t)
	g.list("Character devices:\n")
	early := filepath.Join(t.TempDir(), "early")
	if err := unix.Mknod(early, unix.S_IFCHR|0o666, int(unix.Mkdev(registered, 200))); err != nil {
		t.Fatal(err)
	}
	made := g.open(io.Discard)
	g.begin(made)
	g.expect("no driver: the registered major", g.in(g.outside, reading(early)), refused)
	g.expect("no driver: another", g.in(g.outside, reading(g.null)), "")
	g.list(madeUp)
	if err := made.updateMajors(); err != nil {
		t.Fatal(err)
	}
	g.expect("loaded", g.in(g.outside, reading(g.null)), refused)
	g.list("Character devices:\n195 somebody\n")
	if err := made.updateMajors(); err != nil {
		t.Fatal(err)
	}
	g.expect("unloaded", g.in(g.outside, reading(g.null)), "")
	if got := try(g.in(g.outside, reading(early))); got == refused {
		t.Error("the registered major is guarded, though another driver has it")
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
}

// others are programs of systemd's or a container runtime's: they refuse one major.
func others(t *testing.T, major int32) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "others", Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice, License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, askedMajor, asm.Word),
			asm.Mov.Imm(asm.R0, 1),
			asm.JNE.Imm(asm.R1, major, "out"),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return().WithSymbol("out"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return program
}

// TestOthers: programs that others have attached, or attach later, in every way that the kernel
// knows, count as before.
func TestOthers(t *testing.T) {
	const override, multi = 1, 2
	for _, test := range []struct {
		name  string
		flags uint32
		first bool
	}{
		{"alone, first", 0, true},
		{"to be overridden, first", override, true},
		{"one of many, first", multi, true},
		{"alone, later", 0, false},
		{"to be overridden, later", override, false},
		{"one of many, later", multi, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t)
			made := g.open(io.Discard)
			program := others(t, otherMajor)
			directory, err := os.Open(g.outside)
			if err != nil {
				t.Fatal(err)
			}
			defer directory.Close()
			attach := func() {
				err := link.RawAttachProgram(link.RawAttachProgramOptions{
					Target: int(directory.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice, Flags: test.flags,
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.first {
				attach()
			}
			g.begin(made)
			if !test.first {
				attach()
			}
			g.expect("what the guard refuses", g.in(g.outside, reading(g.null)), refused)
			g.expect("what the others refuse", g.in(g.outside, reading(g.other)), refused)
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			g.expect("after the end, what the guard refused", g.in(g.outside, reading(g.null)), "")
			g.expect("after the end, what the others refuse", g.in(g.outside, reading(g.other)), refused)
		})
	}
}

// TestHolders checks that processes which had a device open before, and denied ones, are named.
func TestHolders(t *testing.T) {
	g := newGround(t)
	log := &waiting{heard: make(chan string, 4096)}
	made := g.open(log)
	early := g.in(g.outside, exec.Command("sh", "-c", "exec 5<"+g.null+"; echo; read go"))
	in, err := early.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := early.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := early.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	g.begin(made)
	holders, err := made.Holders()
	if err != nil {
		t.Fatal(err)
	}
	// /dev/null is open in others too, this very process among them.
	at := slices.IndexFunc(holders, func(h Holder) bool { return h.PID == early.Process.Pid })
	if at < 0 || !slices.Contains(holders[at].Devices, g.null) {
		t.Errorf("holders %+v, want pid %d among them with %s", holders, early.Process.Pid, g.null)
	}
	named := func(text string) bool { return strings.Contains(text, fmt.Sprintf("pid %d (", early.Process.Pid)) }
	if warnings := made.Warnings(); !slices.ContainsFunc(warnings, named) {
		t.Errorf("warnings %q, want pid %d in them", warnings, early.Process.Pid)
	}
	late := g.in(g.outside, reading(g.null))
	g.expect("too late", late, refused)
	line := log.await("kept a process")
	for _, want := range []string{"uid=0", "process=dd", "device=nvidia-made-up", "minor=3"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s: want %q in it", line, want)
		}
	}
	if made.Denied() != 1 {
		t.Errorf("%d denials, want 1", made.Denied())
	}
	_ = in.Close()
	_ = early.Wait() // read has come to the end of its input
	log.await(fmt.Sprintf("process with an open GPU ended\" pid=%d ", early.Process.Pid))
	if warnings := made.Warnings(); slices.ContainsFunc(warnings, named) {
		t.Errorf("warnings after its end: %q", warnings)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
}

// waiting passes on what is logged.
type waiting struct{ heard chan string }

// await returns the first line, from here on, that has a text in it.
func (w *waiting) await(text string) string {
	for {
		if line := <-w.heard; strings.Contains(line, text) {
			return line
		}
	}
}

func (w *waiting) Write(line []byte) (int, error) {
	w.heard <- string(bytes.Clone(line))
	return len(line), nil
}

func TestParseMajors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       majors
	}{
		{"no driver", "Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n", majors{195: "nvidia"}},
		{
			"a driver", "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n226 drm\n234 " +
				"nvidia-nvswitch\n235 nvidia-caps\n509 nvidia-caps-imex-channels\n511 nvidia-uvm\n",
			majors{
				195: "nvidiactl", 234: "nvidia-nvswitch", 235: "nvidia-caps", 509: "nvidia-caps-imex-channels",
				511: "nvidia-uvm",
			},
		},
		{"an old one", "Character devices:\n195 nvidia-frontend\n", majors{195: "nvidia-frontend"}},
		{"the number is another's", "Character devices:\n195 gpib\n", majors{}},
		{"a block device of that name", "Character devices:\n\nBlock devices:\n 99 nvidia\n195 sd\n", majors{195: "nvidia"}},
		{"no list", "", majors{195: "nvidia"}},
	} {
		if got := parseMajors(test.text); got.String() != test.want.String() {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestOwner(t *testing.T) {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		from  owner
		ended bool
	}{
		{"this process", owner{cgroup.Namespace(), self}, false},
		{
			"one that had its pid",
			owner{cgroup.Namespace(), proc.Identity{PID: self.PID, StartTicks: self.StartTicks + 1}},
			true,
		},
		{
			"one of another namespace",
			owner{cgroup.Namespace() + 1, proc.Identity{PID: self.PID, StartTicks: self.StartTicks + 1}},
			false,
		},
	} {
		if got := decodeOwner(test.from.encode()); got != test.from || got.ended() != test.ended {
			t.Errorf("%s: %+v, ended %v; want %+v, %v", test.name, got, got.ended(), test.from, test.ended)
		}
	}
}
