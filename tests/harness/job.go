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

// Job is a program that is saved and brought back. It runs in a directory of its own, which has all
// that it writes, its standard output and error included, so that two runs can be compared.
type Job struct {
	// Dir has the files out and err and what else the program writes; Image is the directory of its
	// checkpoints.
	Dir, Image string
	// PID is the program's first pid. It keeps it after every restore but those with --new-pids; then
	// PID is the pid by which other processes know it.
	PID int

	first   int // PID at first
	t       testing.TB
	daemon  *Daemon
	program []string
	// Hold: the program finds in HOLD the name of a file that is there only once Finish was called,
	// and waits for it. So it does not end too early for the test, however slow the machine is.
	Hold bool
	// Prepare may change the program before it starts, Beside the pos_cli that restores it and stays
	// with it.
	Prepare, PrepareCLI func(*exec.Cmd)
	// tree are all processes that were ever seen to descend from the program, and still were there
	// when last looked at.
	tree     map[int]proc.Identity
	restored bool
	// exit is what the program's parent, or pos_cli with it, tells; nil after a detached restore.
	exit *exitWatch
}

// exitWatch ends with the process that it is about.
type exitWatch struct {
	ended  chan struct{}
	status int
	err    error
}

// Job prepares a program and its empty directories.
func (d *Daemon) Job(t testing.TB, path string, arguments ...string) *Job {
	t.Helper()
	if compileOnly() {
		t.Skip("the program is compiled, and no more was asked for")
	}
	root := t.TempDir()
	j := &Job{
		Dir: filepath.Join(root, "run"), Image: filepath.Join(root, "image"), t: t, daemon: d,
		program: append([]string{path}, arguments...), tree: map[int]proc.Identity{},
	}
	if err := os.Mkdir(j.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.end)
	return j
}

// Move has another daemon bring the program back from now on.
func (j *Job) Move(daemon *Daemon) { j.daemon = daemon }

// Start runs the program from its beginning.
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
	j.PID, j.exit, j.restored = command.Process.Pid, follow(command), false
	j.first = j.PID
	return j
}

func follow(command *exec.Cmd) *exitWatch {
	l := &exitWatch{ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.err = command.Wait()
		l.status = exitStatus(command.ProcessState)
	}()
	return l
}

// exitStatus is as a shell has it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Lines is how many lines the program has printed.
func (j *Job) Lines() int {
	text, _ := os.ReadFile(filepath.Join(j.Dir, "out"))
	return bytes.Count(text, []byte{'\n'})
}

// WaitLines waits until the program has printed so many lines.
func (j *Job) WaitLines(lines int) {
	j.t.Helper()
	j.daemon.Eventually(fmt.Sprintf("%d lines are printed", lines), func() bool {
		if j.Lines() < lines && !j.Alive() {
			j.t.Fatalf("the program has ended after %d lines: %s", j.Lines(), j.Stderr())
		}
		return j.Lines() >= lines
	})
}

// WaitLine waits until the program has printed a line that begins with a word.
func (j *Job) WaitLine(word string) {
	j.t.Helper()
	j.daemon.Eventually("the program says "+word, func() bool {
		text, _ := os.ReadFile(filepath.Join(j.Dir, "out"))
		said := strings.Contains("\n"+string(text), "\n"+word+" ")
		if !said && !j.Alive() {
			j.t.Fatalf("the program has ended without %q: %s%s", word, text, j.Stderr())
		}
		return said
	})
}

// Stderr is the end of what the program wrote to its standard error.
func (j *Job) Stderr() string {
	text, _ := os.ReadFile(filepath.Join(j.Dir, "err"))
	return tail(string(text))
}

// Alive says whether the program is there and no zombie.
func (j *Job) Alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", j.PID))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return rest != "" && rest[0] != 'Z' && rest[0] != 'X'
}

// Cli runs pos_cli to its end, and fails the test when it fails.
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
			tail(j.daemon.logText()),
		)
	}
	return text
}

// TryCli runs pos_cli and returns what it said.
func (j *Job) TryCli(arguments ...string) (string, error) {
	j.noteTree()
	output, err := j.daemon.Run(j.daemon.Command(arguments...))
	return string(output), err
}

// Attended says that pos_cli stands beside the restored program, or the test itself beside one that
// was just started.
func (j *Job) Attended() bool { return j.exit != nil }

// Restored says that the program that runs has come from an image.
func (j *Job) Restored() bool { return j.restored }

// PreDump saves the program, which runs on.
func (j *Job) PreDump(flags ...string) string {
	j.t.Helper()
	return j.Cli(append([]string{"--pre-dump", "--dir", j.Image, "--pid", fmt.Sprint(j.PID)}, flags...)...)
}

// Dump saves the program and ends it.
func (j *Job) Dump(flags ...string) string {
	j.t.Helper()
	j.noteTree()
	text := j.Cli(append([]string{"--dump", "--dir", j.Image, "--pid", fmt.Sprint(j.PID)}, flags...)...)
	j.WaitGone()
	return text
}

// Kill ends the program and its descendants by SIGKILL.
func (j *Job) Kill() {
	j.t.Helper()
	j.noteTree()
	for pid, id := range j.tree {
		if id.Check() != nil {
			continue // the pid may belong to another process by now
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			j.t.Fatal(err)
		}
	}
	j.WaitGone()
}

// Signal sends one to the program, if it is there.
func (j *Job) Signal(signal syscall.Signal) {
	j.t.Helper()
	if err := syscall.Kill(j.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		j.t.Fatal(err)
	}
}

// noteTree notes the program's descendants.
func (j *Job) noteTree() {
	for todo := []int{j.PID}; len(todo) > 0; todo = todo[1:] {
		id, err := proc.Of(todo[0])
		if err != nil {
			continue
		}
		j.tree[todo[0]] = id
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

// WaitGone waits until the program's pids are free and the process that stood beside the program has
// ended.
func (j *Job) WaitGone() {
	j.t.Helper()
	if j.exit != nil {
		j.await()
		j.exit = nil
	}
	j.daemon.Eventually(fmt.Sprintf("the pids %v are free", slices.Sorted(maps.Keys(j.tree))), func() bool {
		maps.DeleteFunc(j.tree, func(_ int, id proc.Identity) bool { return id.Check() != nil })
		return len(j.tree) == 0 && free(j.PID)
	})
}

func free(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func (j *Job) await() int {
	j.t.Helper()
	select {
	case <-j.exit.ended:
	case <-time.After(10 * Patience):
		j.t.Fatalf("pid %d does not end\n%s", j.PID, tail(j.daemon.logText()))
	}
	return j.exit.status
}

// Restore brings the program back, with pos_cli beside it, and returns when it runs.
func (j *Job) Restore(flags ...string) {
	j.t.Helper()
	command := j.daemon.Command(append([]string{"--restore", "--dir", j.Image}, flags...)...)
	said := &cliOutput{runs: make(chan struct{})}
	command.Stderr = said
	if j.PrepareCLI != nil {
		j.PrepareCLI(command)
	}
	if err := command.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.exit = follow(command)
	select {
	case <-said.runs:
		j.readPID(said.text(), flags)
	case <-j.exit.ended:
		j.exit = nil
		j.t.Fatalf("%v: %s\n%s", command.Args, said.text(), tail(j.daemon.logText()))
	case <-time.After(2 * Patience):
		j.t.Fatalf("%v: never: %s\n%s", command.Args, said.text(), tail(j.daemon.logText()))
	}
}

// RestoreDetached brings the program back and leaves it alone.
func (j *Job) RestoreDetached(flags ...string) {
	j.t.Helper()
	said := j.Cli(append([]string{"--restore", "--detach", "--dir", j.Image}, flags...)...)
	j.exit = nil
	j.readPID(said, flags)
}

var runsAgain = regexp.MustCompile(`pid (\d+) runs again`)

// readPID learns from pos_cli's output which pid the restored program has.
func (j *Job) readPID(said string, flags []string) {
	j.t.Helper()
	found := runsAgain.FindStringSubmatch(said)
	if found == nil {
		j.t.Fatalf("pos_cli names no pid: %s", said)
	}
	pid, _ := strconv.Atoi(found[1]) // it is digits
	if anew := slices.Contains(flags, "--new-pids"); anew == (pid == j.first) {
		j.t.Fatalf("restored with %v as pid %d, and was %d", flags, pid, j.first)
	}
	j.PID, j.restored = pid, true
	j.noteTree()
}

// holdFile is the file that a held program waits for.
func (j *Job) holdFile() string { return filepath.Join(filepath.Dir(j.Dir), "on") }

// Release lets a held program go on.
func (j *Job) Release() {
	j.t.Helper()
	if err := os.WriteFile(j.holdFile(), nil, 0o644); err != nil {
		j.t.Fatal(err)
	}
}

// Finish waits for the program's own end and returns its exit status, or -1 if no process stands
// beside it to learn it.
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

// FinishLike finishes the program and compares its end, and all that it leaves, with an undisturbed
// run. what says in a failure which end it is.
func (j *Job) FinishLike(t testing.TB, what string, want Result, status int) {
	t.Helper()
	if got := j.Finish(); got != status {
		t.Fatalf("%s: it ends with status %d, want %d: %s", what, got, status, j.Stderr())
	}
	if differences := j.Result().Differs(want); differences != "" {
		t.Fatalf("%s: %s", what, differences)
	}
}

// end leaves no process behind, whatever the test has come to.
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

// cliOutput notes what pos_cli says, and when it says that the program runs.
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

func (h *cliOutput) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buffer.String()
}

// Result is all that a run leaves: the files of its directory.
type Result map[string]string

// Result reads what the program has written.
func (j *Job) Result() Result {
	j.t.Helper()
	result := Result{}
	err := filepath.WalkDir(j.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
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

// Differs says where one result is unlike another; empty: nowhere.
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

func firstDifference(got, want string) string {
	a, b := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf(", line %d: %.100q, want %.100q (%d and %d bytes)", i+1, a[i], b[i], len(got), len(want))
		}
	}
	return fmt.Sprintf(" has %d bytes, want %d", len(got), len(want))
}
