package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// LogsVariable names a directory in which failing tests leave the whole logs of their daemons: for
// machines that are gone when the failure is looked at.
const LogsVariable = "PHOS_TEST_LOGS"

// keepLog leaves the daemon's log where it is looked for.
func (d *Daemon) keepLog() {
	dir := os.Getenv(LogsVariable)
	if dir == "" || os.MkdirAll(dir, 0o755) != nil {
		return
	}
	file, err := os.CreateTemp(dir, strings.ReplaceAll(d.t.Name(), "/", "-")+"-phosd-*.log")
	if err != nil {
		d.t.Logf("the log of phosd is not kept: %v", err)
		return
	}
	defer file.Close()
	if _, err := file.WriteString(d.logText()); err == nil {
		d.t.Logf("all of the log: %s", file.Name())
	}
}

// aloneTime is how long a program has that runs again without phos.
const aloneTime = 2 * time.Minute

// runNatively runs the program again, by a GPU's driver alone: where that fails too, the program asks
// what such GPUs do not do. It is empty where there is no such driver.
func (p *Program) runNatively() string {
	library, real := Driver()
	if !real {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), aloneTime)
	defer cancel()
	command := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
	command.Env, command.Dir, command.SysProcAttr, command.WaitDelay = withoutPhos(
		p.Env,
		library,
	), p.Dir, p.SysProcAttr, time.Second
	output, err := command.CombinedOutput()
	verdict := "it ends well"
	if err != nil {
		verdict = err.Error()
	}
	return "by the driver alone: " + verdict + "\n" + tail(string(output))
}

// withoutPhos is the environment of a program under phos as it would be without. A library that
// stands for the driver is preloaded.
func withoutPhos(environment []string, library string) (out []string) {
	for _, each := range environment {
		name, value, _ := strings.Cut(each, "=")
		switch name {
		case "LD_PRELOAD", api.SocketVariable:
			continue
		case "LD_LIBRARY_PATH":
			paths := slices.DeleteFunc(strings.Split(value, ":"), func(path string) bool {
				return path == "" || filepath.Clean(path) == filepath.Join(Bin(), "lib")
			})
			each = name + "=" + strings.Join(paths, ":")
		}
		out = append(out, each)
	}
	if library != "" {
		out = append(out, "LD_PRELOAD="+library)
	}
	if socket, set := os.LookupEnv(api.SocketVariable); set {
		out = append(out, api.SocketVariable+"="+socket)
	}
	return out
}
