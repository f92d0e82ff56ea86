package bench

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// smallHost is the private memory of a program that has hardly any.
const smallHost = 16 * mebibyte

// measureHost returns what private memory of a program, of which 1 % a second is rewritten, adds to
// its pause, and compares it with CRIU's own.
func measureHost(t *testing.T, b *bench) (rows []row) {
	daemon := b.daemon(t)
	small := b.hostPauses(t, daemon, smallHost)
	for _, each := range []struct {
		bytes uint64
		share float64
	}{{b.largest / 8, 1.0 / 8}, {b.largest, 1.0 / 20}} {
		bytes, share := each.bytes, each.share
		ours, plain := b.hostPauses(t, daemon, bytes), b.plainPauses(t, bytes)
		rows = append(rows, row{
			name:  fmt.Sprintf("%d MiB of host memory: pause beyond that of 16 MiB", bytes/mebibyte),
			value: 1e3 * (median(ours.pauses) - median(small.pauses)), unit: "ms", most: 15 + 12*float64(bytes)/(1<<30),
			note: fmt.Sprintf("%s and %s; %s", milliseconds(median(ours.pauses)), milliseconds(median(small.pauses)), ours.note()),
		}, row{
			name:  fmt.Sprintf("%d MiB of host memory: pause / criu dump --leave-running", bytes/mebibyte),
			value: median(ours.seen) / median(plain), most: share,
			note: fmt.Sprintf("as the programs see it: %s and %s", milliseconds(median(ours.seen)), milliseconds(median(plain))),
		})
	}
	shares := b.laterShares(t, daemon, b.largest/8)
	return append(rows, row{
		name:  fmt.Sprintf("%d MiB of host memory: written by a later checkpoint / by the first", b.largest/8/mebibyte),
		value: median(shares), most: 0.015,
		note: "for each second between them, in which 1 % of the pages is rewritten, at random",
	})
}

// laterShares saves a program twice, and returns how much the second checkpoint has written of what
// the first has, for each second between the two.
func (b *bench) laterShares(t *testing.T, daemon *harness.Daemon, bytes uint64) (shares []float64) {
	t.Helper()
	program := b.startHolderWith(t, daemon, 8*mebibyte, func(command *exec.Cmd) {
		command.Env = append(command.Env, hostVariable(bytes))
	})
	for range b.rounds {
		dir := imageDir(t, b.disk)
		settle(t, dir)
		var written [2]float64
		var begun [2]time.Time
		for i := range written {
			begun[i] = time.Now()
			written[i] = float64(program.checkpoint(dir, checkpointOptions{}).GetWrittenBytes())
			time.Sleep(2 * time.Second)
		}
		shares = append(shares, written[1]/written[0]/begun[1].Sub(begun[0]).Seconds())
		remove(t, dir)
	}
	program.finish()
	return shares
}

// hostPauses saves a program with private memory.
func (b *bench) hostPauses(t *testing.T, daemon *harness.Daemon, bytes uint64) (p pauseTimes) {
	t.Helper()
	program := b.startHolderWith(t, daemon, 8*mebibyte, func(command *exec.Cmd) {
		command.Env = append(command.Env, hostVariable(bytes))
	})
	for range b.rounds {
		dir := imageDir(t, b.disk)
		p.measure(program, dir)
		remove(t, dir)
	}
	program.finish()
	return p
}

func hostVariable(bytes uint64) string { return fmt.Sprintf("HOST_MIB=%d", bytes/mebibyte) }

// startPlain starts a program with private memory, which uses no GPU and not phos, and waits until
// that is written.
func (b *bench) startPlain(t *testing.T, bytes uint64) (program *exec.Cmd, page []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page")
	page = newPage(t, path)
	program = exec.Command(b.compiledMemoryProgram(t), path, "0")
	program.Env = []string{hostVariable(bytes), "LD_LIBRARY_PATH=" + filepath.Join(harness.Bin(), "lib")}
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	harness.Eventually(t, "the memory is written", func() bool { return wordOf(page, steps) > 0 })
	return program, page
}

// plainPauses saves such a program by CRIU alone. It returns the pauses that the program sees.
func (b *bench) plainPauses(t *testing.T, bytes uint64) (seen []float64) {
	t.Helper()
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	program, page := b.startPlain(t, bytes)
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	for range b.rounds {
		dir := imageDir(t, b.disk)
		settle(t, dir)
		binary.NativeEndian.PutUint64(page[8*longestStepNs:], 0)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := run(criu, "dump", "--tree", fmt.Sprint(program.Process.Pid), "--images-dir", dir, "--shell-job",
			"--leave-running", "--libdir", dir)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // for its next step
		seen = append(seen, float64(wordOf(page, longestStepNs))/1e9)
		remove(t, dir)
	}
	return seen
}
