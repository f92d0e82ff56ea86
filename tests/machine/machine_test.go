package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// patience is the time limit in an emulated machine on a busy host.
const patience = 10 * time.Minute

// machine is a virtual machine with phos installed in /usr/local.
type machine struct {
	t testing.TB
	// dir has its disk files. disk is an overlay on the disk that scripts/vm.sh has built.
	dir, disk string
	port      int
	// starts counts the starts, so that tests do not use a connection from before a reboot.
	starts  int
	process *exec.Cmd
	ended   chan struct{}
}

// vmDir returns the folder with the parts of a machine that scripts/vm.sh has built.
func vmDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PHOS_VM")
	if dir == "" {
		harness.Need(t, "vm", errors.New("PHOS_VM is not set; scripts/vm.sh builds a machine and sets it"))
	}
	for _, name := range []string{"disk", "kernel", "initrd", "key", "installed"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			harness.Need(t, "vm", err)
		}
	}
	return dir
}

// boot starts a new machine and installs phos.
func boot(t testing.TB) *machine {
	t.Helper()
	from := vmDir(t)
	m := &machine{t: t, dir: t.TempDir()}
	m.disk = filepath.Join(m.dir, "disk")
	m.host("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(from, "disk"), m.disk)
	m.host("truncate", "-s", "1G", m.carryDisk())
	t.Cleanup(m.cutPower)
	m.start()
	m.put(filepath.Join(from, "installed"), "/")
	m.run(`mkdir -p /etc/profile.d && pos_cli --env >/etc/profile.d/phos.sh
		systemctl daemon-reload && systemctl enable --now phosd`)
	return m
}

func (m *machine) host(name string, arguments ...string) {
	m.t.Helper()
	if output, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s %v: %v: %s", name, arguments, err, output)
	}
}

// start powers the machine on, and waits until its units have started.
func (m *machine) start() {
	m.t.Helper()
	from := vmDir(m.t)
	m.port = freePort(m.t)
	m.starts++
	accelerator := os.Getenv("PHOS_VM_ACCEL")
	if accelerator == "" {
		accelerator = "kvm:tcg"
	}
	console := filepath.Join(m.dir, "console")
	m.process = exec.Command(
		"qemu-system-x86_64",
		"-machine",
		"accel="+accelerator,
		"-cpu",
		"max",
		"-smp",
		"2",
		"-m",
		"3072",
		"-display",
		"none",
		"-monitor",
		"none",
		"-serial",
		"file:"+console,
		"-kernel",
		filepath.Join(from, "kernel"),
		"-initrd",
		filepath.Join(from, "initrd"),
		"-append",
		"root=/dev/vda rw console=ttyS0 mitigations=off",
		"-drive",
		"file="+m.disk+",format=qcow2,if=virtio,cache=writeback",
		"-drive",
		"file="+m.carryDisk()+",format=raw,if=virtio",
		"-device",
		"virtio-rng-pci",
		"-device",
		"virtio-net-pci,netdev=n",
		"-netdev",
		fmt.Sprintf("user,id=n,hostfwd=tcp:127.0.0.1:%d-:22", m.port),
	)
	m.process.Stderr = os.Stderr
	if err := m.process.Start(); err != nil {
		harness.Need(m.t, "vm", err)
	}
	m.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(m.process, m.ended)
	m.eventually("the machine is up", "systemctl is-system-running --wait >/dev/null; true")
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// cutPower kills the machine: unwritten data is lost.
func (m *machine) cutPower() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		<-m.ended
		m.process = nil
	}
}

// restart reboots the machine as its administrator would.
func (m *machine) restart() {
	m.t.Helper()
	before := m.run("cat /proc/sys/kernel/random/boot_id")
	_, _ = m.try("root", "systemctl reboot")
	m.starts++
	m.eventually("the machine is up again", fmt.Sprintf(
		"[ $(cat /proc/sys/kernel/random/boot_id) != %s ] && { systemctl is-system-running --wait >/dev/null; true; }",
		strings.TrimSpace(before),
	))
}

// shell prepares a script that runs as a user, in the session that the user's scripts share, or in
// a session of its own.
func (m *machine) shell(ctx context.Context, user, script string, options ...string) *exec.Cmd {
	shared := []string{
		"-o",
		"ControlMaster=auto",
		"-o",
		"ControlPersist=1m",
		"-S",
		fmt.Sprintf("%s/%s%d", m.dir, user, m.starts),
	}
	if options == nil {
		options = shared
	}
	options = append(
		options,
		"-q",
		"-i",
		filepath.Join(vmDir(m.t), "key"),
		"-p",
		fmt.Sprint(m.port),
		"-o",
		"ConnectTimeout=300",
		"-o",
		"StrictHostKeyChecking=no",
		"-o",
		"UserKnownHostsFile=/dev/null",
		"-o",
		"ServerAliveInterval=60",
		user+"@127.0.0.1",
		`bash -lc "$(cat)"`,
	)
	command := exec.CommandContext(ctx, "ssh", options...)
	command.WaitDelay = time.Second
	// Its commands have no input: bash has read all of it before it starts.
	command.Stdin = strings.NewReader("set -eu\n" + script)
	return command
}

// try runs a script as a user.
func (m *machine) try(user, script string, options ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	output, err := m.shell(ctx, user, script, options...).CombinedOutput()
	return string(output), err
}

// run runs a script as root, which must succeed, and returns its output.
func (m *machine) run(script string) string {
	m.t.Helper()
	return m.runAs("root", script)
}

func (m *machine) runAs(user, script string) string {
	m.t.Helper()
	output, err := m.try(user, script)
	if err != nil {
		m.t.Fatalf("%s\n%v: %s\n%s", script, err, output, m.journal())
	}
	return output
}

// mustFail runs a script that must fail with the given error.
func (m *machine) mustFail(user, script, says string) {
	m.t.Helper()
	output, err := m.try(user, script)
	if err == nil || !strings.Contains(output, says) {
		m.t.Errorf("%s: %v: %s", script, err, output)
	}
}

// eventually waits until a script succeeds as root.
func (m *machine) eventually(what, script string) {
	m.t.Helper()
	var output string
	var err error
	for start := time.Now(); time.Since(start) < patience; time.Sleep(time.Second) {
		if output, err = m.try("root", script); err == nil {
			return
		}
		select {
		case <-m.ended:
			m.t.Fatal("the machine exited")
		default:
		}
	}
	console, _ := os.ReadFile(filepath.Join(m.dir, "console"))
	m.t.Fatalf("timed out: %s: %v: %s\n%s%s", what, err, output, tail(string(console)), m.journal())
}

// apart are the options for a session of its own.
const apart = "-Snone"

func (m *machine) journal() string {
	output, _ := m.try(
		"root",
		"journalctl --no-pager -n 400 -u phosd -u job -u back | grep -v ': step ' | tail -n 60; pos_cli --status",
	)
	return output
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// carryDisk is a disk that transfers files into the machine. ssh is slow in an emulated machine.
func (m *machine) carryDisk() string { return filepath.Join(m.dir, "carried") }

// put copies the content of a folder on the host into a folder of the machine.
func (m *machine) put(from, to string) {
	m.t.Helper()
	archive := filepath.Join(m.t.TempDir(), "tar")
	m.host("tar", "-C", from, "-cf", archive, ".")
	m.unpack(archive, to)
}

// unpack extracts an archive in the machine.
func (m *machine) unpack(archive, to string) {
	m.t.Helper()
	m.host("dd", "if="+archive, "of="+m.carryDisk(), "bs=1M", "conv=notrunc")
	m.run(fmt.Sprintf("blockdev --flushbufs /dev/vdb; mkdir -p %s; tar -C %s --no-overwrite-dir -xf /dev/vdb", to, to))
}

// pack creates an archive of a folder of the machine.
func (m *machine) pack(dir string) (archive string) {
	m.t.Helper()
	m.run(fmt.Sprintf("tar -C %s -cf /dev/vdb .; sync; blockdev --flushbufs /dev/vdb", dir))
	archive = filepath.Join(m.t.TempDir(), "tar")
	m.host("cp", "--sparse=always", m.carryDisk(), archive)
	return archive
}
