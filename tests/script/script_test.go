package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/tests/lab"
)

// TestScripts runs the scripts. A script has directories of its own for phosd, $RUN and $STATE, the latter named by a file, $CONFIG; pos_cli
// knows its socket. What it waits for it does for $PATIENCE seconds.
func TestScripts(t *testing.T) {
	lab.Need(t, "build", lab.Built())
	lab.Need(t, "root", lab.Root())
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
	env.Setenv(rpc.SocketVariable, filepath.Join(run, "phosd.sock"))
	env.Setenv("PATH", lab.Bin()+":"+env.Getenv("PATH"))
	env.Setenv("BIN", lab.Bin())
	state, settings := run+"-lasting", filepath.Join(env.WorkDir, "phosd.toml")
	if err := os.WriteFile(settings, []byte(fmt.Sprintf("state_dir = %q\n", state)), 0o600); err != nil {
		return err
	}
	env.Setenv("STATE", state)
	env.Setenv("CONFIG", settings)
	env.Setenv("PATIENCE", fmt.Sprint(int(lab.Patience.Seconds())))
	env.Defer(func() {
		stop := exec.Command(filepath.Join(lab.Bin(), "pos_cli"), "--stop", "--force")
		stop.Env = env.Vars
		_ = stop.Run() // the script may have stopped it already, or never started it
		_ = unix.Unmount(filepath.Join(run, "sessions"), unix.MNT_DETACH)
		_ = os.RemoveAll(run)
		_ = os.RemoveAll(state)
	})
	return nil
}

func condition(name string) (bool, error) {
	switch name {
	case "nvcc":
		_, err := lab.Tool("NVCC")
		return err == nil, nil
	case "gpu":
		_, err := os.Stat("/dev/nvidia0")
		return err == nil, nil
	}
	return false, fmt.Errorf("condition %q is not known", name)
}

// compile SOURCE PROGRAM makes a driver API program out of a file of tests/workloads.
func compile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: compile SOURCE PROGRAM")
	}
	nvcc, err := lab.Tool("NVCC")
	ts.Check(err)
	ts.Check(ts.Exec("gcc", "-O1", "-I", filepath.Join(filepath.Dir(nvcc), "../include"), lab.Path("tests", "workloads", args[0]), "-o", ts.MkAbs(args[1]),
		"-L"+filepath.Join(lab.Bin(), "lib"), "-l:libcuda.so.1", "-lm"))
}
