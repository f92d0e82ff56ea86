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

// patience is how long something that must happen may take in a machine that is emulated beside
// other work.
const patience = 10 * time.Minute

// machine is a virtual one, with phos installed in /usr/local.
type machine struct {
	t testing.TB
	// dir has its disk, disk is what has been written to it on top of what scripts/vm.sh has made.
	dir, disk string
	port      int
	// starts counts the starts, so that no test waits on a connection from before a reboot.
	starts  int
	process *exec.Cmd
	ended   chan struct{}
}

// made is the folder where scripts/vm.sh has put the parts of a machine.
func made(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PHOS_VM")
	if dir == "" {
		harness.Need(t, "vm", errors.New("PHOS_VM is not set; scripts/vm.sh makes a machine and sets it"))
	}
	for _, name := range []string{"disk", "kernel", "initrd", "key", "installed"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			harness.Need(t, "vm", err)
		}
	}
	return dir
}

// boot starts a fresh machine and installs phos.
func boot(t testing.TB) *machine {
	t.Helper()
	from := made(t)
	m := &machine{t: t, dir: t.TempDir()}
	m.disk = filepath.Join(m.dir, "disk")
	m.host("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(from, "disk"), m.disk)
	m.host("truncate", "-s", "1G", m.carried())
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

// start switches the machine on, and returns when all that it starts by itself runs.
func (m *machine) start() {
	m.t.Helper()
	from := made(m.t)
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
		"file="+m.carried()+",format=raw,if=virtio",
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

// cutPower ends the machine: what it had not written to its disk is lost.
func (m *machine) cutPower() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		<-m.ended
		m.process = nil
	}
}

// restart is a reboot by the administrator of the machine.
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

// shell prepares a script that a user runs, in a session that others of this user's scripts share,
// or in one of its own.
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
		filepath.Join(made(m.t), "key"),
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
	// What runs in it has no input: all of it was read when it begins.
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

// run runs a script as root, which must succeed, and returns what it prints.
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

// refuses runs a script that must fail and say why.
func (m *machine) refuses(user, script, says string) {
	m.t.Helper()
	output, err := m.try(user, script)
	if err == nil || !strings.Contains(output, says) {
		m.t.Errorf("%s: %v: %s", script, err, output)
	}
}

// eventually waits until a script of root's succeeds.
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
			m.t.Fatal("the machine has ended")
		default:
		}
	}
	console, _ := os.ReadFile(filepath.Join(m.dir, "console"))
	m.t.Fatalf("never: %s: %v: %s\n%s%s", what, err, output, lastOf(string(console)), m.journal())
}

// apart is for a session of its own.
const apart = "-Snone"

func (m *machine) journal() string {
	output, _ := m.try(
		"root",
		"journalctl --no-pager -n 400 -u phosd -u job -u back | grep -v ': step ' | tail -n 60; pos_cli --status",
	)
	return output
}

func lastOf(text string) string { return text[max(0, len(text)-2000):] }

// carried is the disk by which a machine is given files: an encrypted connection is slow where it
// is emulated.
func (m *machine) carried() string { return filepath.Join(m.dir, "carried") }

// put copies what is in a folder of this machine into one of that.
func (m *machine) put(from, to string) {
	m.t.Helper()
	archive := filepath.Join(m.t.TempDir(), "tar")
	m.host("tar", "-C", from, "-cf", archive, ".")
	m.unpack(archive, to)
}

// unpack lets the machine unpack an archive.
func (m *machine) unpack(archive, to string) {
	m.t.Helper()
	m.host("dd", "if="+archive, "of="+m.carried(), "bs=1M", "conv=notrunc")
	m.run(fmt.Sprintf("blockdev --flushbufs /dev/vdb; mkdir -p %s; tar -C %s --no-overwrite-dir -xf /dev/vdb", to, to))
}

// pack makes an archive of what is in a folder of the machine.
func (m *machine) pack(dir string) (archive string) {
	m.t.Helper()
	m.run(fmt.Sprintf("tar -C %s -cf /dev/vdb .; sync; blockdev --flushbufs /dev/vdb", dir))
	archive = filepath.Join(m.t.TempDir(), "tar")
	m.host("cp", "--sparse=always", m.carried(), archive)
	return archive
}
