package hostile

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// onBoot is a policy whose programs are restored after a restart of the machine.
const onBoot = "checkpoint: {dir: ../image, every: 1s, restore: on-boot}\n"

// gone ends a program, and waits until it has ended.
func gone(t *testing.T, program *exec.Cmd) {
	t.Helper()
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program has ended", func() bool { return program.Process.Signal(syscall.Signal(0)) != nil })
}

// saved waits until a user's program has been saved by its policy.
func (u *user) saved(d *harness.Daemon, program *exec.Cmd) {
	u.t.Helper()
	waitFor(u.t, "the program is saved", func() bool { return u.status(d, program).Checkpoint.Generation != nil })
}

// TestBootOtherImage: after a restart of the machine, bob has put another image in the place of
// one of bob's, or of root's: alice's, which bob may read, or bob's. phosd restores neither.
func TestBootOtherImage(t *testing.T) {
	a, b := alice(t), bob(t)
	r := newUser(t, 0) // root works in a directory of bob's
	if err := os.Chown(r.home, int(b.uid), int(b.uid)); err != nil {
		t.Fatal(err)
	}
	d := start(t)
	alices := a.programIn(d, "alices", "checkpoint: {dir: ../image, every: 1s}\n", onGPU+"ready()")
	bobs := b.programIn(d, "bobs", onBoot, onGPU+"ready()")
	roots := r.programIn(d, "roots", onBoot, onGPU+"ready()")
	a.saved(d, alices)
	b.saved(d, bobs)
	r.saved(d, roots)
	d.Kill()
	for _, program := range []*exec.Cmd{alices, bobs, roots} {
		gone(t, program)
	}
	if err := errors.Join(
		exec.Command("chmod", "-R", "a+rX", a.file("image")).Run(),
		os.Rename(b.file("image"), b.file("other")),
		os.Rename(r.file("image"), r.file("other")),
		os.Symlink(a.file("image"), b.file("image")),
		os.Symlink(b.file("other"), r.file("image")),
	); err != nil {
		t.Fatal(err)
	}
	d.NewBoot()
	for _, u := range []*user{b, r} {
		waitFor(t, "the restore is given up", func() bool { return d.BootRestore(u.file("image")).GetState() == "failed" })
		got := d.BootRestore(u.file("image"))
		if !strings.Contains(got.GetError(), "another user") || got.GetUid() != u.uid {
			t.Errorf("got %v, want another user's image", got)
		}
	}
	if got := d.Status().GetPrograms(); len(got) != 0 {
		t.Errorf("got programs %v, want none", got)
	}
	if text := a.mustCLI(d, "--status"); strings.Contains(text, "restart") {
		t.Errorf("alice sees %q", text)
	}
	if text := b.mustCLI(d, "--status"); !strings.Contains(text,
		"not restored after the machine's restart: "+b.file("image")) {
		t.Errorf("bob sees %q", text)
	}
	d.Kill()
	d.NewBoot()
	if records := d.BootRecords(); len(records) != 0 {
		t.Errorf("after the next restart: got records %v, want none", records)
	}
}

// TestBootRights: the image directory of bob's program leads to a place that bob cannot enter.
// phosd looks with bob's rights, and tries again, because the place may come later.
func TestBootRights(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	bobs := b.programIn(d, "bobs", onBoot, onGPU+"ready()")
	b.saved(d, bobs)
	d.Kill()
	gone(t, bobs)
	if err := errors.Join(
		os.Mkdir(a.file("private"), 0o700),
		os.Rename(b.file("image"), a.file("private/image")),
		os.Symlink(a.file("private/image"), b.file("image")),
	); err != nil {
		t.Fatal(err)
	}
	d.NewBoot()
	waitFor(t, "an attempt failed", func() bool {
		return strings.Contains(d.BootRestore(b.file("image")).GetError(), "permission denied")
	})
	if got := d.Status().GetPrograms(); len(got) != 0 {
		t.Errorf("got programs %v, want none", got)
	}
	d.Kill()
	if err := errors.Join(
		os.Remove(b.file("image")), os.Rename(a.file("private/image"), b.file("image")),
	); err != nil {
		t.Fatal(err)
	}
	d.Launch() // in the same boot
	waitFor(t, "the program is restored", func() bool { return d.BootRestore(b.file("image")).GetPid() != 0 })
	if got := d.BootRestore(b.file("image")); got.GetAttempts() != 2 {
		t.Errorf("got %v, want two attempts", got)
	}
	// It runs until the test kills it.
	_ = syscall.Kill(int(d.BootRestore(b.file("image")).GetPid()), syscall.SIGKILL)
	waitFor(t, "the record is gone", func() bool { return len(d.BootRecords()) == 0 })
}
