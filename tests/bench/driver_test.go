package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/lab"
)

// measureDriver compares phos with what NVIDIA's driver does by itself: it moves a process's GPU memory into the host's, with
// the process standing still, and then CRIU dumps it all. A tenth of the memory is rewritten in a second.
func measureDriver(t *testing.T, b *bench) []row {
	onGPU(t)
	daemon := b.daemon(t)
	theirs := b.byDriver(t, daemon)
	program := b.hold(t, daemon, b.bytes)
	program.set(rewriteBytesPerSecond, b.bytes/10)
	dir := imageDir(t, b.disk)
	saved := program.save(dir, saveOptions{})
	pause, stopped := seconds(saved.GetPauseMicroseconds()), 0.0
	program.set(rewriteBytesPerSecond, 0)
	remove(t, dir)
	dir = imageDir(t, b.disk)
	stopped = seconds(program.save(dir, saveOptions{stopTheWorld: true}).GetTotalMicroseconds())
	program.saveForRestore(dir)
	back, _ := program.firstStep(false)
	program.finish()
	remove(t, dir)
	gigabytes := float64(b.bytes) / 1e9
	return []row{
		{
			name: "pre-dump's pause / the driver's stop", value: pause / theirs.saved, most: 1.0 / 20,
			note: fmt.Sprintf("%s of %.2f s, 10 %%/s rewritten", milliseconds(pause), theirs.saved),
		},
		{
			name: "dump, in the driver's time", value: stopped / theirs.saved, most: 1,
			note: fmt.Sprintf("%.2f GB/s; the driver and CRIU: %.2f GB/s", gigabytes/stopped, gigabytes/theirs.saved),
		},
		{
			name: "first step after a restore, in the driver's time", value: back / theirs.restored, most: 1,
			note: fmt.Sprintf("%.2f s of %.2f s", back, theirs.restored),
		},
	}
}

// byDriver is how long the driver and CRIU take, in seconds.
type byDriver struct{ saved, restored float64 }

func (b *bench) byDriver(t *testing.T, daemon *lab.Daemon) (took byDriver) {
	t.Helper()
	criu, err := lab.CRIU()
	lab.Need(t, "criu", err)
	tool := lab.Compile(t, lab.GCC, "-O1", "testdata/driver_checkpoint.c", "-ldl")
	program := b.holdNative(t, daemon, b.bytes)
	program.set(rewriteBytesPerSecond, b.bytes/10)
	program.moves()
	dir, pid := imageDir(t, b.disk), fmt.Sprint(program.PID)

	start := time.Now()
	byTool(t, tool, "save", pid)
	run(t, criu, "dump", "--tree", pid, "--images-dir", dir, "--shell-job")
	settle(t, dir)
	took.saved = time.Since(start).Seconds()

	before := program.get(steps)
	start = time.Now()
	run(t, criu, "restore", "--images-dir", dir, "--shell-job", "--restore-detached")
	byTool(t, tool, "restore", pid)
	for program.get(steps) < before+2 {
		time.Sleep(500 * time.Microsecond)
	}
	took.restored = time.Since(start).Seconds()
	program.set(quit, 1)
	for start := time.Now(); program.get(verified) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > lab.Patience {
			t.Fatal("the program that the driver brought back does not end well")
		}
	}
	remove(t, dir)
	return took
}

// byTool has the driver do something, or skips the group where it cannot.
func byTool(t *testing.T, tool, verb, pid string) {
	t.Helper()
	command := exec.Command(tool, verb, pid)
	command.Env = lab.NativeEnvironment()
	output, err := command.CombinedOutput()
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == 2 {
		t.Skipf("the driver has no checkpoints of its own: %s", output)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", verb, err, output)
	}
}

func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	if output, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", append([]string{name}, arguments...), err, output)
	}
}

// holdNative is hold without phos.
func (b *bench) holdNative(t *testing.T, daemon *lab.Daemon, bytes uint64) *holder {
	t.Helper()
	return b.holdAs(t, daemon, bytes, func(c *exec.Cmd) { c.Env = lab.NativeEnvironment() })
}

// onGPU skips what means nothing on the software GPU.
func onGPU(t *testing.T) {
	t.Helper()
	if os.Getenv(lab.GPUsVariable) == "" {
		t.Skip("it compares phos with the driver alone: run it by ./build.sh gpu")
	}
}
