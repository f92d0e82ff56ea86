package criu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// ordinary is a user id without other processes on test machines.
const ordinary = 61234

// asUser runs a program as an ordinary user.
func asUser(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary, Groups: []uint32{ordinary + 1}}
	return command
}

// TestOrdinaryUser runs the everyday programs as a user other than root.
func TestOrdinaryUser(t *testing.T) {
	for name, code := range someOf(programs) {
		if name == "tcp within" || name == "inotify" {
			// covered by TestObstacles
			continue
		}
		t.Run(name, func(t *testing.T) {
			cpu := newCPU(t)
			s := begin(t, asUser(python(t, directory(t, ordinary), code)))
			s.says("at one")
			s.roundTrip(cpu)
		})
	}
	for _, method := range []string{"spawn", "forkserver"}[:rounds.Of(0, 2)] {
		t.Run("multiprocessing "+method, func(t *testing.T) {
			cpu := newCPU(t)
			s := begin(t, asUser(multi(t, directory(t, ordinary), method)))
			s.says("at one")
			s.roundTrip(cpu)
		})
	}
}

// TestRightsRestored: a restored program has its user's rights and no more.
func TestRightsRestored(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, asUser(python(t, directory(t, ordinary), `
def rights(): return [l for l in open('/proc/self/status') if l.split(':')[0] in ('Uid', 'Gid', 'Groups', 'CapPrm', 'CapEff', 'CapInh', 'CapAmb', 'CapBnd', 'NoNewPrivs')]
before = rights()
step('one')
assert rights() == before, (before, rights())
say('done'); sys.exit(7)
`)))
	s.says("at one")
	s.roundTrip(cpu)
}

// TestSwappedLink: a file that the program was writing was replaced by a link to one of root's. A
// restore must not write there.
func TestSwappedLink(t *testing.T) {
	cpu := newCPU(t)
	dir := directory(t, ordinary)
	secret := filepath.Join(directory(t, 0), "secret")
	if err := os.WriteFile(secret, []byte("root's own"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := begin(t, asUser(python(t, dir, "data = open('data', 'w'); data.write('mine'); data.flush(); step('one')")))
	s.says("at one")
	saved := s.save(cpu, true)
	for _, swap := range []func() error{
		func() error { return os.Symlink(secret, filepath.Join(dir, "data")) },
		func() error { return os.Link(secret, filepath.Join(dir, "data")) },
	} {
		if err := os.Remove(filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
		if err := swap(); err != nil {
			t.Fatal(err)
		}
		if _, err := cpu.Restore(within(t), saved.order(t)); err == nil {
			t.Error("restored over another user's file")
		} else {
			t.Log(err)
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "root's own" {
			t.Errorf("root's file holds %q, %v", text, err)
		}
	}
}

// TestNoBetterRights: CRIU for a user has three capabilities, and the user cannot reach the
// directory of images.
func TestNoBetterRights(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, asUser(python(t, directory(t, ordinary), "step('one')")))
	s.says("at one")
	// A fake CRIU reports its rights and exits.
	fake := filepath.Join(directory(t, ordinary), "criu")
	script := "#!/bin/sh\ngrep -E 'Uid|Gid|Groups|Cap' /proc/self/status > " + s.file(
		"rights",
	) + "\nls -l /proc/self/fd > " + s.file(
		"descriptors",
	) + "\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cpu.options.Program = fake
	tree, frozen := s.freeze(cpu)
	// So far phosd has only asked for its version, with its own rights.
	for _, name := range []string{"rights", "descriptors"} {
		if err := os.Remove(s.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := frozen.Dump(within(t), images(t, ordinary)); err == nil {
		t.Error("dump by a fake CRIU succeeded")
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.file("rights"))
	if err != nil {
		t.Fatal(err)
	}
	const three = 1<<unix.CAP_CHECKPOINT_RESTORE | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SETPCAP
	var want string
	for _, name := range []string{"CapInh", "CapPrm", "CapEff"} {
		want += fmt.Sprintf("%s:\t%016x\n", name, uint64(three))
	}
	if got := lines(string(text), "CapInh", "CapPrm", "CapEff"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := lines(string(text), "Uid", "Gid", "Groups"), fmt.Sprintf(
		"Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGroups:\t%[2]d \n", ordinary, ordinary+1); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if tree.Processes[0].UID != ordinary {
		t.Errorf("got uid %d", tree.Processes[0].UID)
	}
}
