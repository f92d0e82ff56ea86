package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
	"github.com/phos-gpu/phos/tests/harness"
)

// start starts an attempt with limits, or skips the test where there is no such controller.
func (f *fixture) startLimited(limits procgroup.Limits) {
	f.Helper()
	f.spec.Limits = limits
	if _, err := procgroup.Create(parentCgroup+"/probe", limits); err != nil {
		harness.Need(f.T, "controllers", err)
	}
	group, err := procgroup.Open(parentCgroup + "/probe")
	if err == nil {
		err = errors.Join(group.Remove(f.patient()), group.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.start()
}

// TestOutOfMemory: the end says that it was the limit.
func TestOutOfMemory(t *testing.T) {
	f := newFixture(t)
	f.spec.Processes = []Process{f.process(itself(t), "eat", "1000")}
	f.startLimited(procgroup.Limits{MemoryBytes: 64 << 20})
	status := f.end()
	f.expect(status, Failed, "was killed: out of memory")
	if !status.Exits()[0].OutOfMemory || status.OOMKills == 0 {
		t.Errorf("%+v", status)
	}
}

// TestChildOutOfMemory: if a child is what the kernel kills, the count says so.
func TestChildOutOfMemory(t *testing.T) {
	f := newFixture(t, `"$EAT" eat 1000; exit 3`)
	f.spec.Processes[0].Environment = append(f.spec.Processes[0].Environment, "EAT="+itself(t))
	f.startLimited(procgroup.Limits{MemoryBytes: 64 << 20})
	if status := f.end(); status.Reason != Failed || status.OOMKills == 0 {
		t.Errorf("%+v", status)
	}
}

// TestKilledBelowLimit: SIGKILL from elsewhere is not taken for a lack of memory.
func TestKilledBelowLimit(t *testing.T) {
	f := newFixture(t, "kill -9 $$")
	f.startLimited(procgroup.Limits{MemoryBytes: 64 << 20})
	f.expect(f.end(), Failed, killed)
}

// TestAllInside: each process is in the cgroups of all limits before its first instruction, and the
// thread that has started them is not.
func TestAllInside(t *testing.T) {
	f := newFixture(t, "cat /proc/self/cgroup; read line < $HERE/go", "cat /proc/self/cgroup; read line < $HERE/go")
	if err := unix.Mkfifo(filepath.Join(f.root, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startLimited(procgroup.Limits{CPUs: 1500, MemoryBytes: 64 << 20, Pids: 50})
	status := f.started()
	path := "/" + status.Cgroup
	f.says("0 out 0::" + path)
	f.says("1 out 0::" + path)
	for _, controller := range []string{"cpu", "memory", "pids"} {
		top, err := cgroup.Legacy(controller)
		if errors.Is(err, cgroup.ErrNoController) {
			continue // it is in the cgroup of version 2
		}
		inside := 0
		for _, line := range f.printed() {
			if strings.HasSuffix(line, path) && strings.Contains(line, ":"+controller) {
				inside++
			}
		}
		if inside != len(f.spec.Processes) {
			t.Errorf("%s: inside %d of %q", controller, inside, f.printed())
		}
		f.eventually("only the processes are inside of "+controller, func() bool {
			threads, err := os.ReadFile(filepath.Join(top, status.Cgroup, "tasks"))
			return err == nil && len(strings.Fields(string(threads))) == len(f.spec.Processes)
		})
	}
}

// TestPids: the limit holds exactly, whatever thread has started the processes.
func TestPids(t *testing.T) {
	f := newFixture(t, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo all; wait")
	f.startLimited(procgroup.Limits{Pids: 4})
	f.eventually("no more processes", func() bool {
		text := strings.Join(f.printed(), "\n")
		return strings.Contains(text, "ork") // dash says "Cannot fork", bash "fork: retry"
	})
	if left := f.marked(); len(left) > 4 {
		t.Errorf("%d processes", len(left))
	}
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.end()
}

// TestLimitRefused: a limit that cannot be set is an error that names it, and nothing is started.
func TestLimitRefused(t *testing.T) {
	f := newFixture(t, "touch $HERE/began")
	f.spec.Limits.CPUs = 1 << 60
	_, err := Start(f.patient(), f.root, f.spec)
	var refused *procgroup.LimitError
	if !errors.As(err, &refused) || refused.Controller != "cpu" || !errors.Is(err, procgroup.ErrLimit) {
		t.Errorf("%v", err)
	}
	if keys, err := List(f.root); err != nil || len(keys) > 0 {
		t.Errorf("left %v, %v", keys, err)
	}
	for _, top := range tops() {
		if left, _ := filepath.Glob(filepath.Join(top, parentCgroup, f.spec.Launch+".*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
	if _, err := os.Stat(filepath.Join(f.root, "began")); err == nil {
		t.Error("started")
	}
}

// TestUser: a process is what its user would be, and cannot read what is root's.
func TestUser(t *testing.T) {
	const script = `id -u; id -g; id -G; umask; ulimit -Hn > /dev/null; ps -o sid= -o pid= -p $$ | tr -s ' '
		cat "$RUN/order.json" > /dev/null 2>&1 && echo reads; ls "$RUN" > /dev/null 2>&1 && echo lists
		ls /proc/self/fd | tr '\n' ' '; readlink /proc/self/fd/0; pwd; nice; cat /proc/self/oom_score_adj
		grep -E '^(SigBlk|SigIgn|NoNewPrivs):' /proc/self/status | tr -s '\t' ' '; echo $$; env | sort | tr '\n' ' '`
	f := newFixture(t, script)
	p := &f.spec.Processes[0]
	p.UID, p.GID, p.Groups, p.Directory = 54321, 54322, []uint32{54323, 54324}, "/"
	p.Environment = []string{"PATH=/usr/bin:/bin", "A=b c", "RUN=" + filepath.Join(f.root, f.spec.Key.String())}
	f.start()
	status := f.end()
	f.expect(status, Completed, succeeded)
	pid := fmt.Sprint(status.Processes[0].PID)
	want := []string{
		"54321", "54322", "54322 54323 54324", "0022", pid + " " + pid,
		"0 1 2 3 /dev/null", "/", "0", "0",
		"SigBlk: 0000000000000000", "SigIgn: 0000000000000000", "NoNewPrivs: 0", pid,
		"A=b c PATH=/usr/bin:/bin PWD=/ RUN=" + filepath.Join(f.root, f.spec.Key.String()) + " ",
	}
	var got []string
	for _, line := range f.printed() {
		got = append(got, strings.TrimLeft(strings.TrimPrefix(line, "0 out "), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestInheritance: signals that the agent ignores and blocks, and files that it has inherited, are
// not passed on.
func TestInheritance(t *testing.T) {
	f := newFixture(t, `ls /proc/self/fd | tr '\n' ' '; echo; grep -E '^(SigBlk|SigIgn):' /proc/self/status | tr -s '\t' ' '`)
	agent := pythonAgent(f)
	if _, err := agent.Output(); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.Attempt, _, err = Adopt(f.patient(), f.root, f.spec.Key); err != nil {
		t.Fatal(err)
	}
	status := f.end()
	f.expect(status, Completed, succeeded)
	want := []string{"0 out 0 1 2 3 ", "0 out SigBlk: 0000000000000000", "0 out SigIgn: 0000000000000000"}
	if got := f.printed(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFlood: a process that prints without an end costs bounded disk and memory, goes on, and what
// was dropped is counted.
func TestFlood(t *testing.T) {
	const mebibytes = 64
	f := newFixture(t, fmt.Sprintf("yes 'a line of some length, again and again' | head -c %dM; sleep 0.6; echo; echo done", mebibytes))
	f.spec.Log = linelog.Limits{TotalBytes: 1 << 20}
	f.start()
	status := f.started()
	var disk, memory int64
	f.eventually("the flood ends", func() bool {
		disk = max(disk, directoryBytes(f.LogDirectory()))
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", status.Supervisor.PID)); err == nil {
			var all, resident int64
			_, _ = fmt.Sscan(string(text), &all, &resident)
			memory = max(memory, resident*int64(os.Getpagesize()))
		}
		now, err := f.Status(f.patient())
		return err == nil && now.State == Ended
	})
	f.expect(f.end(), Completed, succeeded)
	if disk > 1<<20 || memory > 64<<20 {
		t.Errorf("%d bytes of disk, %d of memory", disk, memory)
	}
	t.Logf("%d MiB printed; %d KiB of disk, %d KiB of memory", mebibytes, disk>>10, memory>>10)
	f.countFlood(mebibytes << 20)
}

// countFlood checks that what was dropped and what is there are all.
func (f *fixture) countFlood(bytes int64) {
	f.Helper()
	const line = "a line of some length, again and again"
	want := (bytes+int64(len(line)))/int64(len(line)+1) + 1 // the last one is not whole; and "done"
	r := f.Log(linelog.Position{})
	defer r.Close()
	var seen, lost int64
	last := ""
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		if e.Lost != nil {
			lost += e.Lost.Lines
			continue
		}
		if !e.Partial { // the record of its end counts
			seen++
		}
		last = string(e.Text)
	}
	// A line whose end comes late is two records: where both are lost, they count as two lines.
	if lost == 0 || seen == 0 || last != "done" || seen+lost < want {
		f.Errorf("%d seen and %d lost of %d, last %q", seen, lost, want, last)
	}
}

// directoryBytes is what the files in a directory take.
func directoryBytes(dir string) (bytes int64) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
