package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fact is a property of the machine that rows need.
type fact string

const (
	hasGPU    fact = "gpu"
	isRoot    fact = "root"
	hasCRIU   fact = "criu"
	mayTrace  fact = "ptrace"
	mayMount  fact = "mount"
	mayFreeze fact = "freeze"
	hasTorch  fact = "torch"
	hasShared fact = "shm"
	mayBecome fact = "setuid"
)

// identity identifies the machine of the outcomes. With another GPU, driver or phos all rows run
// again.
type identity struct {
	GPU    string `json:"gpu"`
	UUID   string `json:"uuid"`
	Driver string `json:"driver"`
	Phos   string `json:"phos"`
}

// machine is the machine that runs the rows.
type machine struct {
	identity
	options
	criu   string
	places places

	deviceBytes uint64
	diskBytes   uint64
	lacks       map[fact]string // why a fact does not hold
}

// The facts are checked in this order.
var facts = []struct {
	fact  fact
	check func(context.Context, *machine) error
}{
	{isRoot, checkRoot},
	{mayBecome, checkBecome},
	{hasGPU, checkGPU},
	{hasCRIU, checkCRIU},
	{mayTrace, checkTrace},
	{mayMount, checkMount},
	{mayFreeze, checkFreeze},
	{hasTorch, checkTorch},
	{hasShared, checkShared},
}

// missing returns why a row is impossible here; empty if it is possible.
func (m *machine) missing(r row) string {
	var why []string
	for _, need := range r.needs {
		if reason, lacks := m.lacks[need]; lacks {
			why = append(why, fmt.Sprintf("%s: %s", need, reason))
		}
	}
	return strings.Join(why, "; ")
}

// look finds out what the machine is and allows.
func look(ctx context.Context, o options) *machine {
	m := &machine{options: o, lacks: map[fact]string{}, criu: os.Getenv("CRIU")}
	if m.hostBytes == 0 {
		var info unix.Sysinfo_t
		_ = unix.Sysinfo(&info)
		m.hostBytes = info.Totalram * uint64(info.Unit)
	}
	var disk unix.Statfs_t
	if unix.Statfs(m.scratch, &disk) == nil {
		m.diskBytes = disk.Bavail * uint64(disk.Bsize)
	}
	for _, each := range facts {
		within, cancel := context.WithTimeout(ctx, 2*time.Minute)
		if err := each.check(within, m); err != nil {
			m.lacks[each.fact] = err.Error()
		}
		cancel()
	}
	return m
}

// probes is the part whose rows are the facts.
const probes = "probe"

// probeRows returns rows with the results of these checks.
func probeRows() (rows []row) {
	for _, each := range facts {
		rows = append(
			rows,
			row{
				probes,
				string(each.fact),
				[]fact{each.fact},
				0,
				time.Minute,
				func(context.Context, *machine) ([]figure, error) {
					return nil, nil
				},
			},
		)
	}
	return rows
}

// checkRoot returns an error unless the effective user is root.
func checkRoot(context.Context, *machine) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("this is user %d", os.Geteuid())
	}
	return nil
}

// checkBecome switches to a user, as workers do; root without its capabilities may not.
func checkBecome(ctx context.Context, _ *machine) error {
	command := exec.CommandContext(ctx, "true")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}}
	return command.Run()
}

// checkGPU lets phosd look for GPUs, in its own process.
func checkGPU(ctx context.Context, m *machine) error {
	text, err := outputOf(ctx, filepath.Join(m.root, "bin/pos_cli"), "--version")
	if err != nil {
		return fmt.Errorf("%w; run ./build.sh, or unpack the bundle whole", err)
	}
	m.Phos = text
	text, err = outputOf(ctx, filepath.Join(m.root, "bin/phosd"), "probe-gpus", m.library)
	if err != nil {
		return err
	}
	var found struct {
		Failed  string
		Devices []struct {
			Name        string
			UUID        [16]byte
			MemoryBytes uint64
		}
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return fmt.Errorf("parse phosd's list of GPUs: %w", err)
	}
	if found.Failed != "" {
		return errors.New(found.Failed)
	}
	if len(found.Devices) == 0 {
		return errors.New("the driver shows no device")
	}
	first := found.Devices[0]
	m.Driver, m.GPU, m.UUID, m.deviceBytes = m.driverVersion(), first.Name, fmt.Sprintf(
		"%x",
		first.UUID,
	), first.MemoryBytes
	return nil
}

// driverVersion returns the version of NVIDIA's kernel driver, or the library that replaces it.
func (m *machine) driverVersion() string {
	if m.library != "" {
		return filepath.Base(m.library)
	}
	text, err := os.ReadFile("/sys/module/nvidia/version")
	if err != nil {
		return "of unknown version"
	}
	return strings.TrimSpace(string(text))
}

// driverSuffix returns what follows "cuda" in phosd's flag for GPUs.
func (m *machine) driverSuffix() string {
	if m.library == "" {
		return ""
	}
	return ":driver=" + m.library
}

// checkCRIU finds CRIU and runs its check.
func checkCRIU(ctx context.Context, m *machine) error {
	if m.criu == "" {
		found, err := exec.LookPath("criu")
		if err != nil {
			return errors.New("found no criu, and CRIU is not set")
		}
		m.criu = found
	}
	_, err := outputOf(ctx, m.criu, "check")
	if lo, failed := net.InterfaceByName("lo"); err != nil && failed == nil && lo.Flags&net.FlagUp == 0 {
		return fmt.Errorf("%w; CRIU needs the loopback interface, which is down: ip link set lo up", err)
	}
	return err
}

// checkTrace stops a child process with ptrace, as CRIU does.
func checkTrace(context.Context, *machine) error {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		return err
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if err := unix.PtraceSeize(child.Process.Pid); err != nil {
		return fmt.Errorf("seize a child: %w", err)
	}
	return nil
}

// checkMount mounts a tmpfs in a new mount namespace.
func checkMount(ctx context.Context, _ *machine) error {
	_, err := outputOf(ctx, "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt")
	return err
}

// checkFreeze looks for a cgroup of version 2 that can be frozen. phosd mounts the hierarchy itself
// if needed.
func checkFreeze(ctx context.Context, _ *machine) error {
	_, err := outputOf(
		ctx,
		"unshare",
		"--mount",
		"sh",
		"-ec",
		`mount -t cgroup2 none /mnt; mkdir /mnt/phos-probe-$$; trap 'rmdir /mnt/phos-probe-$$' EXIT; test -e /mnt/phos-probe-$$/cgroup.freeze`,
	)
	return err
}

// checkShared checks that files in memory can be created. Images are put there if no disk should
// slow them down.
func checkShared(context.Context, *machine) error {
	file, err := os.CreateTemp("/dev/shm", "phos-probe-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, 64<<20); err != nil {
		return fmt.Errorf("64 MiB in /dev/shm: %w", err)
	}
	return nil
}

// checkTorch runs Python with PyTorch, with the driver's library preloaded if one is named.
func checkTorch(ctx context.Context, m *machine) error {
	path, err := exec.LookPath(m.python)
	if err != nil {
		return err
	}
	// The tests run in folders of their own.
	if m.python, err = filepath.Abs(path); err != nil {
		return err
	}
	arguments := []string{m.python, "-c", findTorch}
	if m.library != "" {
		arguments = append([]string{"LD_PRELOAD=" + m.library}, arguments...)
	}
	_, err = outputOf(ctx, "env", arguments...)
	return err
}

// findTorch exits with 0 if PyTorch works with the driver alone. A PyTorch that is too old for its
// CUDA is not a problem of phos.
const findTorch = `import importlib.util, sys
if not importlib.util.find_spec("torch"): sys.exit("it has no torch")
import torch
if not torch.version.cuda: sys.exit("its PyTorch is without CUDA")
try: torch.cuda.init()
except Exception as e: sys.exit(f"PyTorch {torch.__version__}: {e}")`

// outputOf returns a command's output, and in an error the last lines of its standard error.
func outputOf(ctx context.Context, name string, arguments ...string) (string, error) {
	var complaint strings.Builder
	command := exec.CommandContext(ctx, name, arguments...)
	command.Stderr, command.WaitDelay = &complaint, time.Second
	text, err := command.Output()
	if err != nil {
		lines := strings.FieldsFunc(complaint.String()+"\n"+string(text), func(r rune) bool { return r == '\n' })
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.Join(lines[max(0, len(lines)-2):], "; "))
	}
	return strings.TrimSpace(string(text)), nil
}
