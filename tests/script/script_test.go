package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestScripts runs the scripts. Each script has its own directories for phosd, $RUN and $STATE, and
// a configuration file, $CONFIG, that names the latter. pos_cli uses its socket. Scripts poll for
// $PATIENCE seconds.
func TestScripts(t *testing.T) {
	harness.Need(t, "build", harness.Built())
	harness.Need(t, "root", harness.Root())
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup:               setup,
		Condition:           condition,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"compile": compile},
		UpdateScripts:       os.Getenv("UPDATE") != "",
	})
}

func setup(env *testscript.Env) error {
	run, err := os.MkdirTemp("/run", "phos-script-")
	if err != nil {
		return err
	}
	env.Setenv("RUN", run)
	env.Setenv(api.SocketVariable, filepath.Join(run, "phosd.sock"))
	env.Setenv("PATH", harness.Bin()+":"+env.Getenv("PATH"))
	env.Setenv("BIN", harness.Bin())
	state, settings := run+"-lasting", filepath.Join(env.WorkDir, "phosd.toml")
	text := fmt.Sprintf("state_dir = %q\n", state)
	if criu, err := harness.CRIU(); err == nil {
		text += fmt.Sprintf("criu = %q\n", criu)
	}
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return err
	}
	env.Setenv("STATE", state)
	env.Setenv("CONFIG", settings)
	env.Setenv("PATIENCE", fmt.Sprint(int(harness.Patience.Seconds())))
	env.Defer(func() {
		stop := exec.Command(filepath.Join(harness.Bin(), "pos_cli"), "--stop", "--force")
		stop.Env = env.Vars
		_ = stop.Run() // the script may have stopped phosd, or never started it
		_ = unix.Unmount(filepath.Join(run, "sessions"), unix.MNT_DETACH)
		_ = os.RemoveAll(run)
		_ = os.RemoveAll(state)
	})
	return nil
}

func condition(name string) (bool, error) {
	switch name {
	case "nvcc":
		_, err := harness.Tool("NVCC")
		return err == nil, nil
	case "criu":
		_, err := harness.CRIU()
		return err == nil, nil
	case "gpu":
		_, err := os.Stat("/dev/nvidia0")
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// compile SOURCE PROGRAM compiles a file of tests/workloads as a driver API program.
func compile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: compile SOURCE PROGRAM")
	}
	nvcc, err := harness.Tool("NVCC")
	ts.Check(err)
	ts.Check(
		ts.Exec(
			"gcc",
			"-O1",
			"-I",
			filepath.Join(filepath.Dir(nvcc), "../include"),
			harness.Path("tests", "workloads", args[0]),
			"-o",
			ts.MkAbs(args[1]),
			"-L"+filepath.Join(harness.Bin(), "lib"),
			"-l:libcuda.so.1",
			"-lm",
		),
	)
}
