package saver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestMain is also the main function of saves and restores.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case SaveRole:
			os.Exit(SaveMain())
		case RestoreRole:
			os.Exit(RestoreMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// program counts on a GPU until the test lets it go, and ends with status 7 then.
type program struct {
	*testing.T
	daemon *harness.Daemon
	job    *harness.Job
	root   proc.Identity
}

// start starts a program that has counted.
func start(t *testing.T) *program {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	p := &program{T: t, daemon: harness.Start(t)}
	source := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	p.job = p.daemon.Job(t, source, "1000000", "5000", "2000", filepath.Join(t.TempDir(), "on"))
	p.job.Start()
	t.Cleanup(p.kill)
	p.goesOn()
	if p.root, err = proc.Of(p.job.PID); err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the program.
func (p *program) kill() {
	if p.root.Check() == nil {
		_ = unix.Kill(p.root.PID, unix.SIGKILL) // it may have ended
		p.job.WaitGone()
	}
}

// goesOn waits until the program has taken further steps.
func (p *program) goesOn() {
	p.Helper()
	p.job.WaitLines(p.job.Lines() + 5)
}

// order returns the order to save the program.
func (p *program) order() SaveOrder {
	return SaveOrder{Socket: p.daemon.Socket, Root: p.root, Dir: p.job.Image, Keep: 2}
}

// TestSave: each save has the next generation, and removes old ones. The program goes on.
func TestSave(t *testing.T) {
	p := start(t)
	for generation := uint64(1); generation <= 3; generation++ {
		saved, err := Save(t.Context(), Owner{}, p.order(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if saved.Generation != generation || saved.At.IsZero() || saved.Bytes == 0 || saved.Written == 0 || saved.Pause <= 0 {
			t.Errorf("save %d: %+v", generation, saved)
		}
		p.goesOn()
	}
	dir, err := os.Open(p.job.Image)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	opened, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for generation, kept := range map[uint64]bool{1: false, 2: true, 3: true} {
		if _, err := opened.Inspect(generation); (err == nil) != kept {
			t.Errorf("generation %d: %v, want kept %v", generation, err, kept)
		}
	}
}

// TestNotSaved: a save that fails says why, leaves no image, and the program goes on.
func TestNotSaved(t *testing.T) {
	p := start(t)
	foreign := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.Chown(foreign, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		as     Owner
		change func(*SaveOrder)
		want   string
	}{
		"no parent":         {Owner{}, func(o *SaveOrder) { o.Dir = filepath.Join(foreign, "none", "image") }, "create " + foreign + "/none on all nodes first"},
		"no phosd":          {Owner{}, func(o *SaveOrder) { o.Socket += ".none" }, "no phosd runs"},
		"another process":   {Owner{}, func(o *SaveOrder) { o.Root.StartTicks++ }, fmt.Sprintf("pid %d: ", p.root.PID)},
		"another's program": {Owner{UID: 65534, GID: 65534}, func(o *SaveOrder) { o.Dir = foreign }, "permi"},
		"another's place":   {Owner{UID: 65534, GID: 65534}, func(*SaveOrder) {}, "image directory: "},
	} {
		order := p.order()
		test.change(&order)
		saved, err := Save(t.Context(), test.as, order, nil)
		if !errors.Is(err, ErrNotSaved) || !strings.Contains(err.Error(), test.want) || saved != (Saved{}) {
			t.Errorf("%s: %+v, %v, want %q", name, saved, err, test.want)
		}
	}
	p.daemon.Relaunch(ckpt.FailpointsVariable + "=commit=error")
	if saved, err := Save(t.Context(), Owner{}, p.order(), nil); !errors.Is(err, ErrNotSaved) || saved.Generation != 0 {
		t.Errorf("a step fails: %+v, %v", saved, err)
	}
	p.goesOn()
	p.daemon.Relaunch()
	if saved, err := Save(t.Context(), Owner{}, p.order(), nil); err != nil || saved.Generation != 1 {
		t.Errorf("after failures: %+v, %v", saved, err)
	}
}

// TestSavesAtOnce: of two saves of a program at once, each is a generation of its own or is
// refused; no image is damaged.
func TestSavesAtOnce(t *testing.T) {
	p := start(t)
	type result struct {
		saved Saved
		err   error
	}
	results := make(chan result, 2)
	for range cap(results) {
		go func() {
			saved, err := Save(t.Context(), Owner{}, p.order(), nil)
			results <- result{saved, err}
		}()
	}
	taken := map[uint64]bool{}
	for range cap(results) {
		r := <-results
		if r.err != nil && !errors.Is(r.err, ErrNotSaved) || taken[r.saved.Generation] {
			t.Errorf("%+v, %v", r.saved, r.err)
		}
		taken[r.saved.Generation] = true
	}
	if !taken[1] {
		t.Error("no image was taken")
	}
	p.goesOn()
	p.job.Cli("image", "verify", p.job.Image)
}

// TestCancel: a save whose context ends is undone. The program goes on, and can be saved.
func TestCancel(t *testing.T) {
	p := start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	p.daemon.Relaunch(ckpt.FailpointsVariable + "=resume=until:" + gate)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("the attempt has ended")
	ended := make(chan error, 1)
	go func() {
		_, err := Save(ctx, Owner{}, p.order(), nil)
		ended <- err
	}()
	p.daemon.LogContains("cut") // the program is frozen
	cancel(why)
	if err := <-ended; !errors.Is(err, ErrNotSaved) || !errors.Is(err, why) {
		t.Errorf("it has ended with %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.goesOn()
	harness.Eventually(t, "the program can be saved", func() bool {
		saved, err := Save(t.Context(), Owner{}, p.order(), nil)
		return err == nil && saved.Generation == 1
	})
}

// restore starts a restore, as a supervisor does.
func (p *program) restore(order RestoreOrder) *exec.Cmd {
	p.Helper()
	words, err := RestoreCommand(order)
	if err != nil {
		p.Fatal(err)
	}
	if parsed, found := ParseRestore(words); !found || !reflect.DeepEqual(parsed, order) {
		p.Errorf("the order is read as %+v, %v", parsed, found)
	}
	command := exec.Command(words[0], words[1:]...)
	command.Stdout, command.Stderr = p.Output(), p.Output()
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = command.Process.Kill() }) // it has ended unless the test has failed
	return command
}

// restored waits until a restore has told how far it is.
func (p *program) restored(order RestoreOrder) (told Restored) {
	p.Helper()
	harness.Eventually(p.T, "the restore tells", func() (found bool) {
		told, found = ReadRestored(order.Tell)
		return found
	})
	return told
}

// TestRestore: a program that a save has ended goes on where it was. The restore outlives phosd,
// passes signals on, and ends as the program does.
func TestRestore(t *testing.T) {
	p := start(t)
	order := p.order()
	order.Stop = true
	saved, err := Save(t.Context(), Owner{}, order, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.job.WaitGone()
	back := RestoreOrder{
		Socket: p.daemon.Socket, Dir: p.job.Image, Generation: saved.Generation, Tell: filepath.Join(t.TempDir(), "told"),
	}
	command := p.restore(back)
	told := p.restored(back)
	if told.Error != "" || told.Root.PID != p.job.PID || told.Took <= 0 {
		t.Fatalf("it has told %+v", told)
	}
	p.root = told.Root
	p.goesOn()
	p.daemon.Relaunch()
	p.goesOn()
	if err := command.Process.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if status := command.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGQUIT {
		t.Errorf("it has ended with status %#x", status)
	}
	p.job.WaitGone()
}

// TestNotRestored: a restore that fails tells why, and ends with status 1.
func TestNotRestored(t *testing.T) {
	d := harness.Start(t)
	p := &program{T: t, daemon: d}
	order := RestoreOrder{Socket: d.Socket, Dir: filepath.Join(t.TempDir(), "none"), Generation: 3}
	order.Tell = filepath.Join(t.TempDir(), "told")
	command := p.restore(order)
	_ = command.Wait()
	told := p.restored(order)
	if command.ProcessState.ExitCode() != 1 || !strings.Contains(told.Error, "restore generation 3 of "+order.Dir+": image directory: ") {
		t.Errorf("status %v, %+v", command.ProcessState, told)
	}
	if _, found := ParseRestore([]string{"/bin/sh", RestoreRole, "{}"}); found {
		t.Error("another command is taken for a restore")
	}
}
