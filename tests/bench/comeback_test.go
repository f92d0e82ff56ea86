package bench

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// measureComeback compares the restore of a program with private memory with CRIU's own.
func measureComeback(t *testing.T, b *bench) []row {
	bytes := b.largest / 8 * 3
	plain := b.plainRestores(t, bytes)
	daemon := b.daemon(t)
	program := b.startHolderWith(t, daemon, 8*mebibyte, func(command *exec.Cmd) {
		command.Env = append(command.Env, hostVariable(bytes))
	})
	dir := imageDir(t, b.disk)
	program.dumpForRestore(dir)
	settle(t, dir)
	var lazy, eager []float64
	for range b.rounds {
		copyIntoMemory(t, dir, func([]byte) {}) // so that the image is in the page cache
		step, _ := program.firstStep(false)
		lazy = append(lazy, step)
		program.Kill()
		step, _ = program.firstStep(true)
		eager = append(eager, step)
		program.Kill()
	}
	program.firstStep(false)
	program.finish()
	remove(t, dir)
	note := func(ours []float64) string {
		return fmt.Sprintf("%s and %s", milliseconds(median(ours)), milliseconds(median(plain)))
	}
	return []row{
		{
			name:  fmt.Sprintf("%d MiB of host memory: first step after a lazy restore / criu restore", bytes/mebibyte),
			value: median(lazy) / median(plain), most: 1.0 / 20, note: note(lazy),
		},
		{
			name:  fmt.Sprintf("%d MiB of host memory: eager restore / criu restore", bytes/mebibyte),
			value: median(eager) / median(plain), most: 1.3, note: note(eager),
		},
	}
}

// plainRestores restores a program with private memory, which uses no GPU, by CRIU alone. It
// returns the seconds until its next step.
func (b *bench) plainRestores(t *testing.T, bytes uint64) (seen []float64) {
	t.Helper()
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	program, page := b.startPlain(t, bytes)
	kill := func() { _ = syscall.Kill(program.Process.Pid, syscall.SIGKILL) }
	defer kill()
	dir := imageDir(t, b.disk)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(criu, "dump", "--tree", fmt.Sprint(program.Process.Pid), "--images-dir", dir, "--libdir", dir); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed by the dump
	for range b.rounds {
		saved, start := wordOf(page, steps), time.Now()
		if err := run(criu, "restore", "--images-dir", dir, "--restore-detached", "--libdir", dir); err != nil {
			t.Fatal(err)
		}
		for wordOf(page, steps) <= saved {
			time.Sleep(500 * time.Microsecond)
		}
		seen = append(seen, time.Since(start).Seconds())
		kill()
		harness.Eventually(t, "the program has ended", func() bool {
			return syscall.Kill(program.Process.Pid, 0) != nil
		})
	}
	remove(t, dir)
	return seen
}
