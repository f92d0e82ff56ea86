package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/tests/harness"
)

// room has a phosd and a program that counts, which checks itself, until the file "enough" is in
// its directory.
type room struct {
	t      *testing.T
	daemon *harness.Daemon
	job    *harness.Job
	// keepers is how many there are when a program runs: one for a restored one. Rooms of subtests
	// share it.
	keepers *int
}

const elements = 20000

// newRoom starts both.
func newRoom(t *testing.T, arguments ...string) *room {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	if cage == "" {
		harness.Need(t, "criu", errors.New("no cgroup of version 2 can be made here"))
	}
	r := &room{t: t, keepers: new(int), daemon: startDaemon(t, arguments...)}
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	r.job = r.daemon.Job(t, program, "1000000", fmt.Sprint(elements), "5000", "enough").Start()
	r.job.Reaches(3)
	return r
}

// startDaemon starts a phosd in the cage. One that stands behind its driver is part of the GPU, as
// it were, and outside.
func startDaemon(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	daemon := harness.Start(
		t,
		append([]string{"--gpus=soft:1,deterministic", "--sessions-arena-size=64MiB"}, arguments...)...)
	if daemon.Behind != nil {
		if err := move(daemon.Behind.PID(), outside); err != nil {
			t.Fatal(err)
		}
	}
	return daemon
}

// in makes a subtest the one that fails.
func (r *room) in(t *testing.T) *room {
	here := *r
	here.t = t
	return &here
}

func (r *room) log() string {
	text, _ := os.ReadFile(r.daemon.Log)
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// eventually waits until check returns no error.
func (r *room) eventually(wrong func() string) {
	r.t.Helper()
	late := false
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		last := wrong()
		if last == "" {
			return
		}
		if late { // and one more look, for a machine that stood still
			r.t.Fatalf("%s\n%s", last, r.log())
		}
		late = time.Since(begun) > harness.Patience
	}
}

// restore restores the program. No pos_cli stays beside it.
func (r *room) restore() {
	r.t.Helper()
	r.job.RestoreDetached()
	*r.keepers = 1
}

// alone insists that there is nothing but phosd and the program with what belongs to it. A
// checkpoint whose user has left is over first.
func (r *room) alone() {
	r.t.Helper()
	r.eventually(func() string {
		for _, program := range r.daemon.Status().GetPrograms() {
			if program.GetCheckpointRunning() {
				return fmt.Sprintf("pid %d is still being saved", program.GetPid())
			}
		}
		return ""
	})
	r.tidy(1, *r.keepers)
}

// heldUp starts a phosd that waits at a step of a checkpoint or a restore until it is told to
// continue, or its caller has gone.
func (r *room) heldUp(step string) (goOn func()) {
	r.t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(r.daemon.Log), "on") // for as long as this phosd is there
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(dir, "on")
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=until:" + file)
	return func() {
		r.t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// logged is where the log ends now.
func (r *room) logged() int {
	info, err := os.Stat(r.daemon.Log)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(info.Size())
}

// reaches waits until the log says that a step is reached, beyond a place in it.
func (r *room) reaches(from int, step string) {
	r.t.Helper()
	r.says(from, "msg=step name="+regexp.QuoteMeta(step)+"\n")
}

// says waits until a line of the log matches, beyond a place in it.
func (r *room) says(from int, pattern string) {
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

// find is the pid of the only process whose command line has a text in it.
func (r *room) find(text string) (pid int) {
	r.t.Helper()
	r.eventually(func() string {
		processes, _ := caged(r.t)
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

// runsOn insists that the program goes on.
func (r *room) runsOn() {
	r.t.Helper()
	before := r.job.Lines()
	r.eventually(func() string {
		if r.job.Lines() < before+2 {
			return fmt.Sprintf(
				"the program does not run on: %d lines, before %d; alive: %v; %s",
				r.job.Lines(),
				before,
				r.job.Alive(),
				r.job.Said(),
			)
		}
		return ""
	})
}

// tidy insists that there is nothing but phosd, and the programs with their workers and keepers.
func (r *room) tidy(programs, keepers int) {
	r.t.Helper()
	r.eventually(func() string { return r.untidy(programs, keepers) })
	if r.daemon.Behind != nil {
		r.eventually(func() string { return busyGPUs(r.daemon.Behind, programs) })
	}
}

func (r *room) untidy(programs, keepers int) string {
	var left []string
	processes, groups := caged(r.t)
	count := make(map[string]int)
	for pid, what := range processes {
		switch {
		case pid == os.Getpid() || pid == r.daemon.PID():
			continue
		case strings.Contains(what, "phosd worker "):
			count["workers"]++
		case strings.HasPrefix(what, "/proc/self/exe keeper"):
			count["keepers"]++
		case strings.HasSuffix(what, " enough"):
			count["programs"]++
		case strings.Contains(what, "/pos_cli --restore") && keepers > 0:
			continue // it stands beside the program
		default:
			count["others"]++
		}
		left = append(left, fmt.Sprintf("%d %s", pid, what))
	}
	want := map[string]int{"workers": programs, "keepers": keepers, "programs": programs, "others": 0}
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
	if text := r.untidyFiles(programs, keepers); text != "" {
		return text
	}
	return busyGPUs(r.daemon, programs)
}

// busyGPUs asks a phosd which workers use its GPUs. A phosd behind another is used by the other's
// workers, and learns of their ends later.
func busyGPUs(daemon *harness.Daemon, programs int) string {
	status := daemon.Status()
	if len(status.GetPrograms()) != programs {
		return fmt.Sprintf(
			"phosd knows %d programs, want %d: %v",
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

// untidyFiles looks for what is left in phosd's own directories.
func (r *room) untidyFiles(programs, keepers int) string {
	for pattern, want := range map[string]int{
		r.daemon.Dir + "/sessions/*": programs, r.daemon.Dir + "/control/*": programs + keepers, r.daemon.Dir + "/state/*.json": programs,
		r.daemon.Dir + "/work/*":   0,
		r.daemon.State + "/work/*": 1, r.daemon.State + "/work/*/*": 0,
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

// snapshot is what an image directory holds.
type snapshot struct {
	generations []uint64
	files       map[string]string
}

func (r *room) snapshot() snapshot {
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

func (r *room) open() (*store.Dir, error) {
	file, err := os.Open(r.job.Image)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return store.Open(file)
}

// verified insists that an image is whole.
func (r *room) verified() {
	r.t.Helper()
	if problems := r.problems(); problems != "" {
		r.t.Errorf("the image: %s", problems)
	}
}

// problems are what verify says, or why it cannot look at the image; empty: nothing is wrong.
func (r *room) problems() string {
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

// unfinished reports whether the next writer takes a file away: it is a temporary one, or a pack
// that the journal of a commit names.
func (s snapshot) unfinished(name string) bool {
	pack := strings.TrimSuffix(filepath.Base(name), ".pack")
	return strings.HasPrefix(name, "/tmp/") ||
		strings.HasPrefix(name, "/packs/") && strings.Contains(s.files["/tmp/commit"], "pack "+pack+"\n")
}

// unchanged insists that an image holds what it did. What a phosd that was killed has left
// unfinished may be there.
func (r *room) unchanged(before snapshot, killed bool) {
	r.t.Helper()
	after := r.snapshot()
	if !slices.Equal(after.generations, before.generations) {
		r.t.Errorf("generations %v, before %v", after.generations, before.generations)
	}
	for name, text := range before.files {
		if now, there := after.files[name]; (!there || now != text) && !before.unfinished(name) {
			r.t.Errorf("%s has changed (there: %v)", name, there)
		}
	}
	for name := range after.files {
		if _, was := before.files[name]; !was && !(killed && after.unfinished(name)) {
			r.t.Errorf("%s is new", name)
		}
	}
}

// grown insists that an image has one more generation, whole, and the old ones as they were.
func (r *room) grown(before snapshot) {
	r.t.Helper()
	after := r.snapshot()
	if len(after.generations) != len(before.generations)+1 {
		r.t.Errorf("generations %v, before %v", after.generations, before.generations)
	}
	r.verified()
}

// ends has the program end by itself, and compares every line that it wrote with what it must have
// computed.
func (r *room) ends() {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.job.Dir, "enough"), nil, 0o644); err != nil {
		r.t.Fatal(err)
	}
	if status := r.job.Finish(); status != 7 && status != -1 {
		r.t.Errorf("the program ends with status %d: %s", status, r.job.Said())
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
