package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// driverTool is testdata/driver_checkpoint.c, which calls the checkpoint functions of NVIDIA's
// driver.
type driverTool struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// errUnsupported means that the driver has no checkpoint functions.
var errUnsupported = errors.New("the driver has no checkpoint functions (added in 570)")

func compileTool(t *testing.T) string {
	t.Helper()
	return harness.Compile(t, harness.GCC, "-O1", "testdata/driver_checkpoint.c", "-ldl")
}

func newDriverTool(t *testing.T, environment []string) (*driverTool, error) {
	t.Helper()
	command := exec.Command(compileTool(t))
	command.Env = environment
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	tool := &driverTool{command, in, bufio.NewScanner(out)}
	t.Cleanup(func() { _ = in.Close(); _ = command.Wait() })
	if said := tool.answer(); said != "ready" {
		return nil, fmt.Errorf("the driver's tool: %s", said)
	}
	return tool, nil
}

// answer waits for a line. It kills the tool if the driver hangs, because the call cannot be
// interrupted.
func (d *driverTool) answer() string {
	hangs := time.AfterFunc(driverPatience, func() { _ = d.command.Process.Kill() })
	if d.out.Scan() {
		hangs.Stop()
		return d.out.Text()
	}
	if !hangs.Stop() {
		return fmt.Sprintf("no answer in %v", driverPatience)
	}
	return "it has ended"
}

// driverPatience is the time limit for the driver and for CRIU, with all of a GPU's memory.
var driverPatience = 10 * harness.Patience

// do lets the driver run a verb on a process, and returns the seconds that it took.
func (d *driverTool) do(verb string, pid int) (tookSeconds float64, err error) {
	if _, err := fmt.Fprintln(d.in, verb, pid); err != nil {
		return 0, fmt.Errorf("the driver's %s: %w", verb, err)
	}
	said := d.answer()
	var microseconds float64
	if _, err := fmt.Sscanf(said, "ok %g", &microseconds); err == nil {
		return microseconds / 1e6, nil
	}
	if said == "unsupported" {
		return 0, errUnsupported
	}
	return 0, fmt.Errorf("the driver's %s: %s", verb, said)
}

// driverTimes are the times of the driver and CRIU, in seconds. Without CRIU a user would wait
// longer than these.
type driverTimes struct {
	lock, checkpoint, dump                float64
	processes, restore, unlock            float64
	where                                 string  // of the images
	stopped                               float64 // from the lock to the end of the dump
	restored                              float64 // from the beginning of CRIU's restore to a step of the program
	withoutDump, withoutRestore, notBegun error
}

// note describes the parts of the pause.
func (d *driverTimes) note() string {
	text := fmt.Sprintf("the driver's stop: lock %s, checkpoint %.2f s", milliseconds(d.lock), d.checkpoint)
	if d.withoutDump != nil {
		return text + fmt.Sprintf(", and no dump, so that it is shorter than a user's: %v", d.withoutDump)
	}
	return text + fmt.Sprintf(", CRIU %.2f s", d.dump)
}

// checkpointWithDriver saves a program that runs without phos, ends it, and restores it: lock,
// checkpoint, dump, then the reverse. Without a directory, or if CRIU fails, the program stays, and
// only the driver's part is measured.
func checkpointWithDriver(tool *driverTool, criu string, program *holder, dir string) (d driverTimes) {
	pid := program.PID
	start := time.Now()
	if d.lock, d.notBegun = tool.do("lock", pid); d.notBegun != nil {
		return d
	}
	if d.checkpoint, d.notBegun = tool.do("checkpoint", pid); d.notBegun != nil {
		_, _ = tool.do("unlock", pid)
		return d
	}
	if dir == "" {
		d.withoutDump = errors.New("no space for the images")
	} else {
		d.dump, d.withoutDump = timed(func() error { return criuDump(criu, pid, dir) })
	}
	d.stopped = time.Since(start).Seconds()

	before := program.get(steps)
	start = time.Now()
	if d.withoutDump == nil {
		d.processes, d.withoutRestore = timed(func() error {
			return run(criu, "restore", "--images-dir", dir, "--shell-job", "--restore-detached", "--libdir", dir)
		})
	}
	if d.withoutRestore == nil {
		d.restore, d.withoutRestore = tool.do("restore", pid)
	}
	if d.withoutRestore == nil {
		d.unlock, d.withoutRestore = tool.do("unlock", pid)
	}
	if d.withoutRestore != nil {
		return d
	}
	if err := program.reaches(before + 2); err != nil {
		d.withoutRestore = err
	}
	d.restored = time.Since(start).Seconds()
	return d
}

// criuDump returns when the images are on the disk. CRIU's own CUDA plugin is not loaded: the
// directory of images, which it searches for plugins, has none.
func criuDump(criu string, pid int, dir string) error {
	if err := run(
		criu, "dump", "--tree", fmt.Sprint(pid), "--images-dir", dir, "--shell-job", "--libdir", dir,
	); err != nil {
		return err
	}
	return syncDisk(dir)
}

func timed(do func() error) (tookSeconds float64, err error) {
	start := time.Now()
	err = do()
	return time.Since(start).Seconds(), err
}

// run runs a command that may fail; its error has the end of the output.
func run(name string, arguments ...string) error {
	ctx, cancel := context.WithTimeoutCause(
		context.Background(),
		driverPatience,
		fmt.Errorf("timed out after %v", driverPatience),
	)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		err = errors.Join(err, context.Cause(ctx))
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return fmt.Errorf(
			"%s %s: %w: %s",
			filepath.Base(name),
			arguments[0],
			err,
			strings.Join(lines[max(0, len(lines)-3):], "; "),
		)
	}
	return nil
}

// end lets a program that is not a child of this process check its memory and exit.
func (h *holder) end() error {
	h.set(quit, 1)
	for start := time.Now(); h.get(verified) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > harness.Patience {
			return fmt.Errorf("the program that the driver restored exited with an error: %s", h.Stderr())
		}
	}
	return nil
}

// reaches waits for a step.
func (h *holder) reaches(step uint64) error {
	for start := time.Now(); h.get(steps) < step; time.Sleep(500 * time.Microsecond) {
		if time.Since(start) > harness.Patience {
			return fmt.Errorf("the program that the driver restored makes no step: %s", h.Stderr())
		}
	}
	return nil
}

// TestDriverCheckpoint saves a program without a GPU, with a fake driver and the real CRIU. The
// calls must come in the driver's required order with the right arguments, and the program's memory
// must be right in the end.
func TestDriverCheckpoint(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	library := filepath.Join(
		filepath.Dir(
			harness.Compile(
				t,
				harness.GCC,
				"-shared",
				"-fPIC",
				"-Wl,-soname,libcuda.so.1",
				"testdata/made_up_driver.c",
			),
		),
		"libcuda.so.1",
	)
	if err := os.Symlink("program", library); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	stepping := harness.Compile(t, harness.GCC, "-O1", "testdata/steps.c")
	daemon, b := harness.Start(t), newBench(t)
	for name, test := range map[string]struct {
		extra   []string
		dir     string
		calls   string // %d stands for the pid
		failure error
	}{
		"with CRIU":     {nil, imageDir(t, b.disk), "lock %d 60000\ncheckpoint %d 0\nrestore %d 0\nunlock %d 0\n", nil},
		"without space": {nil, "", "lock %d 60000\ncheckpoint %d 0\nrestore %d 0\nunlock %d 0\n", nil},
		"old driver":    {[]string{"MADE_UP_WITHOUT=1"}, "", "lock %d 60000\n", errUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "calls")
			tool, err := newDriverTool(
				t,
				append(
					append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(library), "MADE_UP_CALLS="+log),
					test.extra...),
			)
			if err != nil {
				t.Fatal(err)
			}
			program := b.startProgram(t, daemon, stepping, 8*mebibyte, func(c *exec.Cmd) { c.Env = os.Environ() })
			first := program.PID
			d := checkpointWithDriver(tool, criu, program, test.dir)
			if !errors.Is(d.notBegun, test.failure) || d.withoutRestore != nil ||
				(d.withoutDump != nil) != (test.dir == "" && test.failure == nil) {
				t.Errorf("%+v", d)
			}
			if test.failure == nil &&
				(d.stopped < d.lock+d.checkpoint+d.dump || d.restored < d.processes+d.restore+d.unlock) {
				t.Errorf("the total is less than its parts: %+v", d)
			}
			if err := program.end(); err != nil {
				t.Error(err)
			}
			got, _ := os.ReadFile(log)
			if want := strings.ReplaceAll(test.calls, "%d", fmt.Sprint(first)); string(got) != want {
				t.Errorf("got driver calls\n%swant\n%s", got, want)
			}
			t.Log(d.note())
		})
	}
}
