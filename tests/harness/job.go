package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Job is a program that is checkpointed and restored. It runs in a directory of its own, which
// receives all its files, standard output and error included. So two runs can be compared.
type Job struct {
	// Dir contains the files out and err and the program's other files. Image is the directory of
	// its checkpoints.
	Dir, Image string
	// PID is the program's first pid, and stays the same after a restore. After a restore with
	// --new-pids, PID is the pid that processes outside see.
	PID int

	first   int // first value of PID
	t       testing.TB
	daemon  *Daemon
	program []string
	// Hold makes the program wait until Finish is called: it polls for the file that the variable
	// HOLD names. So it does not end too early on a slow machine.
	Hold bool
	// Prepare may change the program before it starts. PrepareCLI may change the pos_cli that
	// restores the program and waits for it.
	Prepare, PrepareCLI func(*exec.Cmd)
	// tree contains all processes that were seen as descendants of the program, and that existed
	// when noteTree was last called.
	tree map[int]proc.Identity
	// ever has the pids that its processes have had, with their executables.
	ever     map[int]string
	restored bool
	// moved is set after Move.
	moved bool
	// exit watches the program, or the pos_cli that waits for it; nil after a detached restore.
	exit *exitWatch
}

// exitWatch waits for a process to exit and holds its status.
type exitWatch struct {
	ended  chan struct{}
	status int
	err    error
}

// Job prepares a program and its empty directories.
func (d *Daemon) Job(t testing.TB, path string, arguments ...string) *Job {
	t.Helper()
	if compileOnly() {
		t.Skip("compile only")
	}
	root := t.TempDir()
	j := &Job{
		Dir: filepath.Join(root, "run"), Image: filepath.Join(root, "image"), t: t, daemon: d,
		program: append([]string{path}, arguments...), tree: map[int]proc.Identity{}, ever: map[int]string{},
	}
	if err := os.Mkdir(j.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.end)
	return j
}

// Move changes the daemon for further commands. It does not know the key of the image's seal.
func (j *Job) Move(daemon *Daemon) { j.daemon, j.moved = daemon, true }

// trust adds the flag that a restore by root needs after a Move.
func (j *Job) trust(flags []string) []string {
	if !j.moved {
		return flags
	}
	return append([]string{"--trust-seal"}, flags...)
}

// Start starts the program.
func (j *Job) Start() *Job {
	j.t.Helper()
	out, err := os.OpenFile(filepath.Join(j.Dir, "out"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		j.t.Fatal(err)
	}
	defer out.Close()
	mistakes, err := os.OpenFile(filepath.Join(j.Dir, "err"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		j.t.Fatal(err)
	}
	defer mistakes.Close()
	command := exec.Command(j.program[0], j.program[1:]...)
	command.Env, command.Dir, command.Stdout, command.Stderr = j.daemon.Environment(), j.Dir, out, mistakes
	if j.Hold {
		command.Env = append(command.Env, "HOLD="+j.holdFile())
	}
	if j.Prepare != nil {
		j.Prepare(command)
	}
	if err := command.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.PID, j.exit, j.restored = command.Process.Pid, watchExit(command), false
	j.first = j.PID
	return j
}

// watchExit waits for a started command in the background.
func watchExit(command *exec.Cmd) *exitWatch {
	l := &exitWatch{ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.err = command.Wait()
		l.status = exitStatus(command.ProcessState)
	}()
	return l
}

// exitStatus returns the status as a shell reports it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Lines returns the number of lines that the program has printed.
func (j *Job) Lines() int {
	text, _ := os.ReadFile(filepath.Join(j.Dir, "out"))
	return bytes.Count(text, []byte{'\n'})
}

// WaitLines waits until the program has printed that many lines.
func (j *Job) WaitLines(lines int) {
	j.t.Helper()
	j.daemon.Eventually(fmt.Sprintf("%d lines are printed", lines), func() bool {
		if j.Lines() < lines && !j.Alive() {
			j.t.Fatalf("program exited after %d lines: %s", j.Lines(), j.Stderr())
		}
		return j.Lines() >= lines
	})
}

// WaitLine waits until the program has printed a line that begins with word.
func (j *Job) WaitLine(word string) {
	j.t.Helper()
	j.daemon.Eventually("the program says "+word, func() bool {
		text, _ := os.ReadFile(filepath.Join(j.Dir, "out"))
		said := strings.Contains("\n"+string(text), "\n"+word+" ")
		if !said && !j.Alive() {
			j.t.Fatalf("program exited without printing %q: %s%s", word, text, j.Stderr())
		}
		return said
	})
}

// Stderr returns the end of the program's standard error.
func (j *Job) Stderr() string {
	text, _ := os.ReadFile(filepath.Join(j.Dir, "err"))
	return Tail(string(text))
}

// Alive reports whether the program exists and is not a zombie.
func (j *Job) Alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", j.PID))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return rest != "" && rest[0] != 'Z' && rest[0] != 'X'
}

// Cli runs pos_cli until it exits, and fails the test if it fails.
func (j *Job) Cli(arguments ...string) string {
	j.t.Helper()
	text, err := j.TryCli(arguments...)
	if err != nil {
		j.t.Fatalf(
			"pos_cli %s: %v\n%s\nthe program: %s\n%s",
			strings.Join(arguments, " "),
			err,
			text,
			j.Stderr(),
			Tail(j.daemon.logText()),
		)
	}
	return text
}

// TryCli runs pos_cli and returns its output.
func (j *Job) TryCli(arguments ...string) (string, error) {
	j.noteTree()
	output, err := j.daemon.Run(j.daemon.Command(arguments...))
	return string(output), err
}

// Attended reports whether a process waits for the program: the pos_cli that restored it, or the
// test that started it.
func (j *Job) Attended() bool { return j.exit != nil }

// Restored reports whether the running program was restored from an image.
func (j *Job) Restored() bool { return j.restored }

// PreDump takes a checkpoint of the program, which continues.
func (j *Job) PreDump(flags ...string) string {
	j.t.Helper()
	return j.Cli(append([]string{"--pre-dump", "--dir", j.Image, "--pid", fmt.Sprint(j.PID)}, flags...)...)
}

// Dump takes a checkpoint of the program and ends it.
func (j *Job) Dump(flags ...string) string {
	j.t.Helper()
	j.noteTree()
	text := j.Cli(append([]string{"--dump", "--dir", j.Image, "--pid", fmt.Sprint(j.PID)}, flags...)...)
	j.WaitGone()
	return text
}

// Kill sends SIGKILL to the program and its descendants.
func (j *Job) Kill() {
	j.t.Helper()
	j.noteTree()
	for pid, id := range j.tree {
		if id.Check() != nil {
			continue // the pid may have been reused
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			j.t.Fatal(err)
		}
	}
	j.WaitGone()
}

// Signal sends a signal to the program, if it exists.
func (j *Job) Signal(signal syscall.Signal) {
	j.t.Helper()
	if err := syscall.Kill(j.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		j.t.Fatal(err)
	}
}

// noteTree records the program's descendants.
func (j *Job) noteTree() {
	for todo := []int{j.PID}; len(todo) > 0; todo = todo[1:] {
		id, err := proc.Of(todo[0])
		if err != nil {
			continue
		}
		j.tree[todo[0]] = id
		if path, err := id.Executable(); err == nil {
			j.ever[todo[0]] = path
		}
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", todo[0]))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					todo = append(todo, pid)
				}
			}
		}
	}
}

// WaitGone waits until the program's pids are free and the pos_cli that waited for it has exited.
func (j *Job) WaitGone() {
	j.t.Helper()
	if j.exit != nil {
		j.await()
		j.exit = nil
	}
	j.daemon.Eventually(fmt.Sprintf("the pids %v are free", slices.Sorted(maps.Keys(j.tree))), func() bool {
		maps.DeleteFunc(j.tree, func(_ int, id proc.Identity) bool { return id.Check() != nil })
		return len(j.tree) == 0 && pidFree(j.PID) && !j.returned()
	})
}

// returned reports whether a process of the program has one of the pids that its tree once had. A
// restored program may end before its tree could be noted.
func (j *Job) returned() bool {
	for pid, path := range j.ever {
		if id, err := proc.Of(pid); err == nil {
			if now, err := id.Executable(); err == nil && now == path {
				return true
			}
		}
	}
	return false
}

// pidFree reports whether no process has the pid.
func pidFree(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// await waits for the exit and returns the status.
func (j *Job) await() int {
	j.t.Helper()
	select {
	case <-j.exit.ended:
	case <-time.After(10 * Patience):
		j.t.Fatalf("pid %d did not exit\n%s", j.PID, Tail(j.daemon.logText()))
	}
	return j.exit.status
}

// Restore restores the program with a pos_cli that waits for it, and returns when the program runs.
func (j *Job) Restore(flags ...string) {
	j.t.Helper()
	command := j.daemon.Command(append([]string{"--restore", "--dir", j.Image}, j.trust(flags)...)...)
	said := &cliOutput{runs: make(chan struct{})}
	command.Stderr = said
	if j.PrepareCLI != nil {
		j.PrepareCLI(command)
	}
	if err := command.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.exit = watchExit(command)
	select {
	case <-said.runs:
		j.readPID(said.text(), flags)
	case <-j.exit.ended:
		j.exit = nil
		j.t.Fatalf("%v: %s\n%s", command.Args, said.text(), Tail(j.daemon.logText()))
	case <-time.After(2 * Patience):
		j.t.Fatalf("%v: timed out: %s\n%s", command.Args, said.text(), Tail(j.daemon.logText()))
	}
}

// RestoreDetached restores the program with a pos_cli that exits afterwards.
func (j *Job) RestoreDetached(flags ...string) {
	j.t.Helper()
	said := j.Cli(append([]string{"--restore", "--detach", "--dir", j.Image}, j.trust(flags)...)...)
	j.exit = nil
	j.readPID(said, flags)
}

// Migrate moves the program to other GPUs.
func (j *Job) Migrate(gpus string, flags ...string) string {
	j.t.Helper()
	said := j.Cli(append([]string{"--migrate", "--pid", fmt.Sprint(j.PID), "--gpus", gpus}, flags...)...)
	j.Detach()
	return said
}

// Detach notes that the program was restored, and that nothing waits for it.
func (j *Job) Detach() {
	j.exit, j.restored = nil, true
	j.noteTree()
}

var runsAgain = regexp.MustCompile(`pid (\d+) runs again`)

// readPID reads the restored program's pid from the output of pos_cli.
func (j *Job) readPID(said string, flags []string) {
	j.t.Helper()
	found := runsAgain.FindStringSubmatch(said)
	if found == nil {
		j.t.Fatalf("no pid in the output of pos_cli: %s", said)
	}
	pid, _ := strconv.Atoi(found[1]) // it consists of digits
	if newPIDs := slices.Contains(flags, "--new-pids"); newPIDs == (pid == j.first) {
		j.t.Fatalf("restored with %v as pid %d, want %d", flags, pid, j.first)
	}
	j.PID, j.restored = pid, true
	j.noteTree()
}

// holdFile is the file that a program with Hold waits for.
func (j *Job) holdFile() string { return filepath.Join(filepath.Dir(j.Dir), "on") }

// Release lets a program with Hold continue.
func (j *Job) Release() {
	j.t.Helper()
	if err := os.WriteFile(j.holdFile(), nil, 0o644); err != nil {
		j.t.Fatal(err)
	}
}

// Finish waits for the program's exit and returns its status. The result is -1 after a detached
// restore, where no process receives the status.
func (j *Job) Finish() int {
	j.t.Helper()
	status := -1
	j.Release()
	j.noteTree()
	if j.exit != nil {
		status = j.await()
	}
	j.WaitGone()
	return status
}

// FinishLike finishes the program and compares its status and files with an undisturbed run. what
// names the run in a failure.
func (j *Job) FinishLike(t testing.TB, what string, want Result, status int) {
	t.Helper()
	if got := j.Finish(); got != status {
		t.Fatalf("%s: exited with status %d, want %d: %s", what, got, status, j.Stderr())
	}
	if differences := j.Result().Differs(want); differences != "" {
		t.Fatalf("%s: %s", what, differences)
	}
}

// end kills all processes of the program at the end of the test.
func (j *Job) end() {
	if j.PID == 0 || !j.t.Failed() {
		return
	}
	j.noteTree()
	for pid, id := range j.tree {
		if id.Check() == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// cliOutput records the output of pos_cli, and detects that the program runs.
type cliOutput struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	runs   chan struct{}
	told   bool
}

func (h *cliOutput) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buffer.Write(data)
	if !h.told && runsAgain.Match(h.buffer.Bytes()) {
		h.told = true
		close(h.runs)
	}
	return len(data), nil
}

// text returns the output so far.
func (h *cliOutput) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buffer.String()
}

// overwritten matches the name of a copy of what a restore has overwritten.
var overwritten = regexp.MustCompile(`\.phos-\d{8}T`)

// Result is the content of all files in a job's directory.
type Result map[string]string

// Result reads the program's files, without the copies that a restore makes of what it overwrites.
func (j *Job) Result() Result {
	j.t.Helper()
	result := Result{}
	err := filepath.WalkDir(j.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || overwritten.MatchString(entry.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(j.Dir, path)
		result[name] = string(text)
		return err
	})
	if err != nil {
		j.t.Fatal(err)
	}
	return result
}

// Differs describes the first difference between two results; empty if they are equal.
func (r Result) Differs(want Result) string {
	var lines []string
	for name, text := range want {
		got, there := r[name]
		switch {
		case !there:
			lines = append(lines, name+" is missing")
		case got != text:
			lines = append(lines, name+firstDifference(got, text))
		}
	}
	for name := range r {
		if _, there := want[name]; !there {
			lines = append(lines, name+" is too many")
		}
	}
	return strings.Join(lines, "\n")
}

// firstDifference returns the first line in which two texts differ, or their sizes.
func firstDifference(got, want string) string {
	a, b := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf(", line %d: %.100q, want %.100q (%d and %d bytes)", i+1, a[i], b[i], len(got), len(want))
		}
	}
	return fmt.Sprintf(" has %d bytes, want %d", len(got), len(want))
}
