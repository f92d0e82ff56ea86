package scenarios

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestHangup: on SIGHUP phosd reads its configuration again and opens its log again, as after a
// rotation. Programs do not notice.
func TestHangup(t *testing.T) {
	harness.Need(t, "python", missing(python))
	dir := open(t)
	log, settings := filepath.Join(dir, "phosd.log"), filepath.Join(dir, "phosd.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[log]\nlevel = \"debug\"\n")
	d := harness.Start(t, "--config="+settings, "--log-file="+log)
	a := stepperCommand(t, program(d))
	a.step(1, 1)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	worker := regexp.MustCompile(`worker=(\d+)`).FindStringSubmatch(string(text))
	if worker == nil {
		t.Fatalf("the log names no worker: %s", text)
	}
	hangup := func(says string) {
		t.Helper()
		if err := os.Rename(log, log+".1"); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(d.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		d.Eventually("the new log says "+says, func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), says)
		})
		// Before that, the worker that runs already has got the new log.
		if now, err := os.Readlink("/proc/" + worker[1] + "/fd/2"); err != nil || now != log {
			t.Errorf("the worker writes to %s, %v; want %s", now, err, log)
		}
	}
	hangup("configuration reloaded")
	write("[workers]\nstandby = 1\n")
	hangup("[workers.standby]")
	write("nonsense\n")
	hangup("the earlier one stays in effect")
	a.step(1, 2)
	b := stepperCommand(t, program(d)) // its worker writes to the new log
	b.step(1, 1)
	b.finish(0)
	a.finish(0)
}
