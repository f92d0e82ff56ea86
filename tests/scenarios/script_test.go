package scenarios

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// script is a program that uses a GPU, and prints a line when it is told to.
const script = `
import ctypes, os, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
os.write(1, b'{"level": "ERROR"}\n')
`

// TestScript follows a Python script: its job has the script's name, also after a restore. Results
// and the log are JSON on request, the program's output in the log among it.
func TestScript(t *testing.T) {
	d, dir := start(t, "--log-format=json"), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("train.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(python, "-u", "train.py")
	program.Dir, program.Env = dir, d.Environment()
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = program.Process.Kill(), program.Wait() })
	written := func(name string) func() bool {
		return func() bool { _, err := os.Stat(at(name)); return err == nil }
	}
	d.Eventually("the program is ready", written("ready"))
	checkJob := func(when string) {
		t.Helper()
		programs := d.Status().GetPrograms()
		if len(programs) != 1 || programs[0].GetDescription().GetJobName() != "train" {
			t.Errorf("%s: got programs %v, want one with job train", when, programs)
		}
	}
	checkJob("at the start")
	pid := strconv.Itoa(program.Process.Pid)
	var traced struct {
		PID   int
		Files []string
		Calls *uint64
	}
	decode(t, mustOutput(t, d, "--trace-resource", "--subaction", "start", "--pid", pid, "--dir", at("trace"), "--json"),
		&traced)
	if len(traced.Files) != 1 || traced.PID != program.Process.Pid || traced.Calls != nil {
		t.Errorf("trace started: got %+v", traced)
	}
	decode(t, mustOutput(t, d, "--trace-resource", "--subaction", "stop", "--pid", pid, "--json"), &traced)
	if traced.Calls == nil {
		t.Errorf("trace stopped: got %+v, want a number of calls", traced)
	}
	mustOutput(t, d, "--dump", "--dir", at("image"), "--pid", pid, "--json")
	_ = program.Wait()
	var restored struct {
		PID       int
		Processes int
		Total     uint64 `json:"total_microseconds"`
	}
	decode(t, mustOutput(t, d, "--restore", "--dir", at("image"), "--detach", "--json"), &restored)
	if restored.PID != program.Process.Pid || restored.Processes != 1 || restored.Total == 0 {
		t.Errorf("restored: got %+v, want pid %s", restored, pid)
	}
	checkJob("after the restore")
	if err := os.WriteFile(at("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.LogContains("output of a restored program")
	d.Eventually("the program has ended", func() bool { return len(d.Status().GetPrograms()) == 0 })
	log, err := os.ReadFile(d.Log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) != nil || entry["msg"] == nil {
			t.Errorf("the log has %q, want JSON", line)
		}
	}
}

// mustOutput runs pos_cli and returns its standard output.
func mustOutput(t *testing.T, d *harness.Daemon, arguments ...string) []byte {
	t.Helper()
	text, err := d.Command(arguments...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("pos_cli %v: %v: %s", arguments, err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return text
}

// decode decodes one JSON object.
func decode(t *testing.T, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}
