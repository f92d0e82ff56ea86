package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/tests/harness"
)

// fixture has a phosd and a program that counts and checks itself, until the file "enough" is in
// the program's directory.
type fixture struct {
	t      *testing.T
	daemon *harness.Daemon
	job    *harness.Job
	// restorers is the number of restorers while the program runs: one if it was restored. Fixtures
	// of subtests share it.
	restorers *int
}

const elements = 20000

// newFixture starts phosd and the program.
func newFixture(t *testing.T, arguments ...string) *fixture {
	t.Helper()
	return newFixtureOf(t, 0, arguments...)
}

// newFixtureOf starts phosd, and the program as a user.
func newFixtureOf(t *testing.T, uid uint32, arguments ...string) *fixture {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	if testCgroup == "" {
		harness.Need(t, "criu", errors.New("cannot create a cgroup of version 2"))
	}
	r := &fixture{t: t, restorers: new(int), daemon: startDaemon(t, arguments...)}
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	r.job = r.daemon.Job(t, program, "1000000", fmt.Sprint(elements), "5000", "enough")
	r.job.Prepare = func(command *exec.Cmd) { runAs(t, command, r.job.Dir, uid) }
	r.job.Start()
	r.job.WaitLines(3)
	return r
}

// runAs makes a command run as a user that owns its directory and the files there.
func runAs(t *testing.T, command *exec.Cmd, dir string, uid uint32) {
	t.Helper()
	if uid == 0 {
		return
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	for _, path := range []string{dir, filepath.Join(dir, "out"), filepath.Join(dir, "err")} {
		if err := os.Chown(path, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{command.Path, dir} { // tests' directories are closed to other users
		for above := filepath.Dir(path); strings.HasPrefix(above, os.TempDir()+"/"); above = filepath.Dir(above) {
			if err := os.Chmod(above, 0o755); err != nil { //nolint:gosec // a test's own directory
				t.Fatal(err)
			}
		}
	}
}

// startDaemon starts a phosd in the test's cgroup. An inner phosd plays the role of the GPU and
// stays outside.
func startDaemon(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	daemon := harness.Start(
		t,
		append([]string{"--gpus=soft:1,deterministic", "--sessions-arena-size=64MiB"}, arguments...)...)
	if daemon.Inner != nil {
		if err := move(daemon.Inner.PID(), outside); err != nil {
			t.Fatal(err)
		}
	}
	return daemon
}

// forSubtest returns a fixture that reports failures to a subtest.
func (r *fixture) forSubtest(t *testing.T) *fixture {
	here := *r
	here.t = t
	return &here
}

// log returns the end of phosd's log.
func (r *fixture) log() string {
	text, _ := os.ReadFile(r.daemon.Log)
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// eventually waits until check returns an empty string.
func (r *fixture) eventually(wrong func() string) {
	r.t.Helper()
	late := false
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		last := wrong()
		if last == "" {
			return
		}
		if late { // check once more, in case the machine was suspended
			r.t.Fatalf("%s\n%s", last, r.log())
		}
		late = time.Since(begun) > harness.Patience
	}
}

// restore restores the program with a pos_cli that exits after the restore.
func (r *fixture) restore() {
	r.t.Helper()
	r.job.RestoreDetached()
	*r.restorers = 1
}

// clean waits for running checkpoints of interrupted commands to end. Then it checks that only
// phosd, the program, and the program's own processes and files are left.
func (r *fixture) clean() {
	r.t.Helper()
	r.eventually(func() string {
		for _, program := range r.daemon.Status().GetPrograms() {
			if program.GetCheckpointRunning() {
				return fmt.Sprintf("pid %d is still being saved", program.GetPid())
			}
		}
		return ""
	})
	r.cleanWith(1, *r.restorers)
}

// pauseAt starts a phosd that pauses at a step of a checkpoint or restore. It continues when resume
// is called, or the caller has disconnected.
func (r *fixture) pauseAt(step string) (resume func()) {
	r.t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(r.daemon.Log), "on") // must exist as long as this phosd
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(dir, "on")
	from := r.logSize()
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=until:" + file)
	r.waitLog(from, "CRIU's features are known") // a CRIU that is asked looks like one left behind
	return func() {
		r.t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// logSize returns the current size of the log.
func (r *fixture) logSize() int {
	info, err := os.Stat(r.daemon.Log)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(info.Size())
}

// waitStep waits until the log, from an offset on, reports that a step is reached.
func (r *fixture) waitStep(from int, step string) {
	r.t.Helper()
	r.waitLog(from, "msg=step name="+regexp.QuoteMeta(step)+"\n")
}

// waitLog waits until a line of the log matches, from an offset on.
func (r *fixture) waitLog(from int, pattern string) {
	r.t.Helper()
	line := regexp.MustCompile(pattern)
	r.eventually(func() string {
		text, _ := os.ReadFile(r.daemon.Log)
		if !line.Match(text[min(from, len(text)):]) {
			return "never in the log: " + pattern
		}
		return ""
	})
}

// find returns the pid of the only process whose command line contains text.
func (r *fixture) find(text string) (pid int) {
	r.t.Helper()
	r.eventually(func() string {
		processes, _ := inTestCgroup(r.t)
		var found []int
		for candidate, what := range processes {
			if candidate != os.Getpid() && strings.Contains(what, text) {
				found = append(found, candidate)
			}
		}
		if len(found) != 1 {
			return fmt.Sprintf("processes with %q: %v", text, found)
		}
		pid = found[0]
		return ""
	})
	return pid
}

// stillRuns checks that the program continues to print lines.
func (r *fixture) stillRuns() {
	r.t.Helper()
	before := r.job.Lines()
	r.eventually(func() string {
		if r.job.Lines() < before+2 {
			return fmt.Sprintf(
				"the program does not continue: %d lines, before %d; alive: %v; %s",
				r.job.Lines(),
				before,
				r.job.Alive(),
				r.job.Stderr(),
			)
		}
		return ""
	})
}

// cleanWith checks that only phosd and the given numbers of programs, with their workers, and of
// restorers are left.
func (r *fixture) cleanWith(programs, restorers int) {
	r.t.Helper()
	r.eventually(func() string { return r.leftovers(programs, restorers) })
	if r.daemon.Inner != nil {
		r.eventually(func() string { return busyGPUs(r.daemon.Inner, programs) })
	}
}

// leftovers describes a deviation from the expected processes, cgroups, files and GPU use; empty if
// there is none.
func (r *fixture) leftovers(programs, restorers int) string {
	var left []string
	processes, groups := inTestCgroup(r.t)
	count := make(map[string]int)
	for pid, what := range processes {
		switch {
		case pid == os.Getpid() || pid == r.daemon.PID():
			continue
		case strings.Contains(what, "phosd worker "):
			count["workers"]++
		case strings.HasPrefix(what, "phosd restorer"):
			count["restorers"]++
		case strings.HasSuffix(what, " enough"):
			count["programs"]++
		case strings.Contains(what, "/pos_cli --restore") && restorers > 0:
			continue // it waits for the program's end
		default:
			count["others"]++
		}
		left = append(left, fmt.Sprintf("%d %s", pid, what))
	}
	want := map[string]int{"workers": programs, "restorers": restorers, "programs": programs, "others": 0}
	for kind, number := range want {
		if count[kind] != number {
			return fmt.Sprintf(
				"%d %s, want %d: %s; phosd's: %s",
				count[kind],
				kind,
				number,
				strings.Join(left, "; "),
				childrenOf(r.daemon.PID()),
			)
		}
	}
	if len(groups) > 0 {
		return fmt.Sprintf("cgroups are left: %v", groups)
	}
	if text := r.leftoverFiles(programs, restorers); text != "" {
		return text
	}
	return busyGPUs(r.daemon, programs)
}

// busyGPUs checks which workers use the GPUs of a phosd. An inner phosd is used by the workers of
// the outer one, and notices their exits later.
func busyGPUs(daemon *harness.Daemon, programs int) string {
	status := daemon.Status()
	if len(status.GetPrograms()) != programs {
		return fmt.Sprintf(
			"phosd has %d programs, want %d: %v",
			len(status.GetPrograms()),
			programs,
			status.GetPrograms(),
		)
	}
	for _, gpu := range status.GetGpus() {
		if programs == 0 && gpu.GetUsedBytes() > 0 {
			return fmt.Sprintf("%d bytes of GPU memory are in use", gpu.GetUsedBytes())
		}
	}
	return ""
}

// leftoverFiles looks for leftovers in phosd's own directories.
func (r *fixture) leftoverFiles(programs, restorers int) string {
	for pattern, want := range map[string]int{
		r.daemon.Dir + "/sessions/*": programs, r.daemon.Dir + "/control/*": programs + restorers,
		r.daemon.Dir + "/state/*.json": programs,
		r.daemon.Dir + "/work/*":       0,
		r.daemon.State + "/work/*":     1, r.daemon.State + "/work/*/*": 0,
	} {
		if found, _ := filepath.Glob(pattern); len(found) != want {
			return fmt.Sprintf("%s: %d, want %d: %v", pattern, len(found), want, found)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	seen := make(map[string]int)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], r.daemon.Dir) {
			seen[fields[4]]++
		}
	}
	for point, number := range seen {
		if number != 1 {
			return fmt.Sprintf("%s is mounted %d times", point, number)
		}
	}
	return ""
}

// snapshot is the content of an image directory.
type snapshot struct {
	generations []uint64
	files       map[string]string
}

func (r *fixture) snapshot() snapshot {
	r.t.Helper()
	s := snapshot{files: make(map[string]string)}
	err := filepath.WalkDir(r.job.Image, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		s.files[strings.TrimPrefix(path, r.job.Image)] = string(text)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	if err != nil {
		r.t.Fatal(err)
	}
	dir, err := r.open()
	if err != nil {
		r.t.Fatal(err)
	}
	defer dir.Close()
	if s.generations, err = dir.Generations(); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *fixture) open() (*store.Dir, error) {
	file, err := os.Open(r.job.Image)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return store.Open(file)
}

// verified checks that the image is whole.
func (r *fixture) verified() {
	r.t.Helper()
	if problems := r.problems(); problems != "" {
		r.t.Errorf("the image: %s", problems)
	}
}

// problems returns what verify reports, or why it cannot read the image; empty if there are none.
func (r *fixture) problems() string {
	dir, err := r.open()
	if err != nil {
		return err.Error()
	}
	defer dir.Close()
	found, err := dir.Verify(context.Background(), nil)
	switch {
	case err != nil:
		return err.Error()
	case len(found.Problems) > 0:
		return fmt.Sprint(found.Problems)
	}
	return ""
}

// unfinished reports whether the next writer removes the file: it is a temporary file, or a pack
// that the journal of a commit names.
func (s snapshot) unfinished(name string) bool {
	pack := strings.TrimSuffix(filepath.Base(name), ".pack")
	return strings.HasPrefix(name, "/tmp/") ||
		strings.HasPrefix(name, "/packs/") && strings.Contains(s.files["/tmp/commit"], "pack "+pack+"\n")
}

// unchanged checks that the image has the same content. If killed is set, unfinished files of a
// killed phosd may be there too.
func (r *fixture) unchanged(before snapshot, killed bool) {
	r.t.Helper()
	after := r.snapshot()
	if !slices.Equal(after.generations, before.generations) {
		r.t.Errorf("generations %v, before %v", after.generations, before.generations)
	}
	for name, text := range before.files {
		if now, there := after.files[name]; (!there || now != text) && !before.unfinished(name) {
			r.t.Errorf("%s changed (exists: %v)", name, there)
		}
	}
	for name := range after.files {
		if _, was := before.files[name]; !was && !(killed && after.unfinished(name)) {
			r.t.Errorf("%s is unexpected", name)
		}
	}
}

// oneGenerationMore checks that the image has one more generation, which is whole, and that the old
// ones are unchanged.
func (r *fixture) oneGenerationMore(before snapshot) {
	r.t.Helper()
	after := r.snapshot()
	if len(after.generations) != len(before.generations)+1 {
		r.t.Errorf("generations %v, before %v", after.generations, before.generations)
	}
	r.verified()
}

// finishAndCompare lets the program end by itself, and compares every line that it wrote with the
// expected value.
func (r *fixture) finishAndCompare() {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.job.Dir, "enough"), nil, 0o644); err != nil {
		r.t.Fatal(err)
	}
	if status := r.job.Finish(); status != 7 && status != -1 {
		r.t.Errorf("program ended with status %d, want 0: %s", status, r.job.Stderr())
	}
	if err := os.Remove(filepath.Join(r.job.Dir, "enough")); err != nil {
		r.t.Fatal(err)
	}
	result := r.job.Result()
	lines := strings.Count(result["steps"], "\n")
	var out, steps strings.Builder
	last := uint32(1)
	for i := range lines {
		last = last*1664525 + (elements - 1) + 1013904223
		fmt.Fprintf(&out, "step %d %08x\n", i, last)
		fmt.Fprintf(&steps, "%d %08x\n", i, last)
	}
	out.WriteString("ok count\n")
	if differs := result.Differs(harness.Result{"out": out.String(), "steps": steps.String(), "err": ""}); differs != "" ||
		lines == 0 {
		r.t.Errorf("after %d steps: %s", lines, differs)
	}
}
