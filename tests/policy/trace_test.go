package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// traceLine is any line of a trace.
type traceLine struct {
	Trace int
	PID   int
	Have  *object
	N     uint64
	Call  string
	Uses  []object
	Makes []object
	Ends  []object
	Calls *uint64
	Error string
}

type object struct {
	As, Kind, Address, Owner string
	ID, Bytes                uint64
}

func (o object) name() string { return fmt.Sprintf("%s %d%s", o.Kind, o.ID, o.Address) }

func readTrace(t *testing.T, path string) (lines []traceLine) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var one traceLine
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
		lines = append(lines, one)
	}
	return lines
}

// checkTrace checks the consistency of a trace: calls are numbered in order, and only use objects
// that exist.
func checkTrace(t *testing.T, pid int, lines []traceLine) (calls map[string]int) {
	t.Helper()
	if lines[0].Trace != 1 || lines[0].PID != pid {
		t.Errorf("the first line is %+v", lines[0])
	}
	living, calls := map[string]bool{}, map[string]int{}
	var count uint64
	for _, line := range lines[1:] {
		if line.Have != nil {
			living[line.Have.name()] = true
		}
		if line.N > 0 {
			count++
			calls[line.Call]++
			if line.N != count {
				t.Fatalf("call %d follows call %d", line.N, count-1)
			}
		}
		for _, used := range line.Uses {
			if !living[used.name()] {
				t.Errorf("call %d, %s, uses %s, which does not exist", line.N, line.Call, used.name())
			}
		}
		for _, made := range line.Makes {
			living[made.name()] = true
		}
		for _, ended := range line.Ends {
			if !living[ended.name()] {
				t.Errorf("call %d, %s, destroys %s, which does not exist", line.N, line.Call, ended.name())
			}
			delete(living, ended.name())
		}
	}
	if last := lines[len(lines)-1]; last.Calls == nil || *last.Calls != count || last.Error != "" {
		t.Errorf("the last line is %+v after %d calls", last, count)
	}
	return calls
}

// beginTrace starts a trace of a program, and returns its file.
func beginTrace(job *harness.Job, dir string) string {
	said := strings.TrimSpace(
		job.Cli("--trace-resource", "--subaction", "start", "--pid", fmt.Sprint(job.PID), "--dir", dir),
	)
	return said[strings.LastIndexByte(said, ' ')+1:]
}

// TestTrace: a program is traced for a while, and again until it exits.
func TestTrace(t *testing.T) {
	daemon := harness.Start(t)
	job := countingJob(t, daemon, "1500", "2000", "20000").Start()
	job.WaitLines(3)
	dir := filepath.Join(t.TempDir(), "trace")
	pid := fmt.Sprint(job.PID)
	begin := func() string { return beginTrace(job, dir) }
	first := begin()
	if said, err := job.TryCli("--trace-resource", "--subaction", "start", "--pid", pid, "--dir", dir); err == nil ||
		!strings.Contains(said, "already") {
		t.Errorf("start of a second trace: %q %v", said, err)
	}
	job.WaitLines(job.Lines() + 5)
	t.Log(job.Cli("--trace-resource", "--subaction", "stop", "--pid", pid))
	if said, err := job.TryCli("--trace-resource", "--subaction", "stop", "--pid", pid); err == nil ||
		!strings.Contains(said, "not being traced") {
		t.Errorf("stop without a trace: %q %v", said, err)
	}
	calls := checkTrace(t, job.PID, readTrace(t, first))
	if calls["launch"] == 0 {
		t.Errorf("no launch among %v", calls)
	}
	last := begin()
	if status := job.Finish(); status != countedStatus {
		t.Errorf("program exited with %d: %s", status, job.Stderr())
	}
	daemon.Empty()
	checkTrace(t, job.PID, readTrace(t, last))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory contains %v, %v", entries, err)
	}
}

// TestTraceAndRestore: a checkpoint does not disturb a trace, and a restored program can be traced
// again.
func TestTraceAndRestore(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "1500", "2000", "20000").Start()
	job.WaitLines(3)
	dir := filepath.Join(t.TempDir(), "trace")
	pid := fmt.Sprint(job.PID)
	begin := func() string { return beginTrace(job, dir) }
	first := begin()
	job.PreDump()
	job.WaitLines(job.Lines() + 3)
	job.Dump()
	daemon.Empty()
	if calls := checkTrace(t, job.PID, readTrace(t, first)); calls["launch"] == 0 {
		t.Errorf("no launch among %v", calls)
	}
	job.Restore()
	if said, err := job.TryCli("--trace-resource", "--subaction", "stop", "--pid", pid); err == nil ||
		!strings.Contains(said, "not being traced") {
		t.Errorf("stop of a trace after a restore: %q %v", said, err)
	}
	second := begin()
	if status := job.Finish(); status != countedStatus {
		t.Errorf("program exited with %d: %s", status, job.Stderr())
	}
	daemon.Empty()
	if calls := checkTrace(t, job.PID, readTrace(t, second)); calls["launch"] == 0 {
		t.Errorf("no launch among %v", calls)
	}
}

// TestTraceFull: a full disk ends the trace, but not the program.
func TestTraceFull(t *testing.T) {
	daemon := harness.Start(t)
	job := countingJob(t, daemon, "5000", "2000", "2000").Start()
	job.WaitLines(1)
	dir := smallDisk(t, 16<<10)
	pid := fmt.Sprint(job.PID)
	job.Cli("--trace-resource", "--subaction", "start", "--pid", pid, "--dir", dir)
	job.WaitLines(job.Lines() + 200)
	if said, err := job.TryCli("--trace-resource", "--subaction", "stop", "--pid", pid); err == nil ||
		!strings.Contains(said, "no space left") {
		t.Errorf("stop of a trace on a full disk: %q %v", said, err)
	}
	if status := job.Finish(); status != countedStatus {
		t.Errorf("program exited with %d: %s", status, job.Stderr())
	}
}
