package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// LogsVariable names a directory for the complete daemon logs of failed tests. It is for machines
// that no longer exist when the failure is examined.
const LogsVariable = "PHOS_TEST_LOGS"

// KeepLog copies the log of a daemon to that directory.
func KeepLog(t testing.TB, daemon, text string) {
	dir := os.Getenv(LogsVariable)
	if dir == "" || os.MkdirAll(dir, 0o755) != nil {
		return
	}
	file, err := os.CreateTemp(dir, strings.ReplaceAll(t.Name(), "/", "-")+"-"+daemon+"-*.log")
	if err != nil {
		t.Logf("cannot keep the log of %s: %v", daemon, err)
		return
	}
	defer file.Close()
	if _, err := file.WriteString(text); err == nil {
		t.Logf("complete log: %s", file.Name())
	}
}

// aloneTime is the time limit for a program's second run, without phos.
const aloneTime = 2 * time.Minute

// runNatively runs the program again with the GPU's driver, without phos. If it fails there too,
// the program needs something that such GPUs do not support. The result is empty if there is no
// such driver.
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
	return "by the driver alone: " + verdict + "\n" + Tail(string(output))
}

// withoutPhos returns a program's environment without phos' settings. If library is set, it is
// preloaded as the driver.
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
