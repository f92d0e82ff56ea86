package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// command is a command that a test runs beside a process.
type command struct {
	*Exec
	in       *os.File
	out, err *os.File
}

// begin begins a command beside the first process.
func (f *fixture) begin(order ExecOrder) (*command, error) {
	f.Helper()
	var ours, theirs [3]*os.File
	for i := range ours {
		read, write, err := os.Pipe()
		if err != nil {
			f.Fatal(err)
		}
		ours[i], theirs[i] = read, write
		if i == 0 {
			ours[i], theirs[i] = write, read
		}
		f.Cleanup(func() { _, _ = read.Close(), write.Close() })
	}
	e, err := f.Attempt.Exec(f.patient(), order, theirs[:])
	for _, file := range theirs {
		_ = file.Close()
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup(func() { _ = e.Close() })
	return &command{e, ours[0], ours[1], ours[2]}, nil
}

// sh begins a script beside the first process.
func (f *fixture) sh(script string) *command {
	f.Helper()
	c, err := f.begin(ExecOrder{Command: [][]byte{[]byte("sh"), []byte("-c"), []byte(script)}})
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// said runs a script beside the first process to its end, and returns what it prints.
func (f *fixture) said(script string) string {
	f.Helper()
	c := f.sh(script)
	out, err := io.ReadAll(c.out)
	if err != nil {
		f.Fatal(err)
	}
	complaint, _ := io.ReadAll(c.err)
	if end, err := c.Wait(); err != nil || end != (ExecEnd{}) {
		f.Errorf("%s: %+v, %v: %s", script, end, err, complaint)
	}
	return string(out)
}

// reads waits until a command has printed a text.
func (f *fixture) reads(c *command, text string) {
	f.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.out, got); err != nil || string(got) != text {
		f.Fatalf("the command printed %q, %v; want %q", got, err, text)
	}
}

// TestExec: a command has the place of its process, as the process itself says.
func TestExec(t *testing.T) {
	const place = `env | grep -v -e ^_= -e ^SHLVL= | sort; pwd; id; grep -v '^0::' /proc/self/cgroup
		cat /proc/self/oom_score_adj; grep -e NoNewPrivs -e SigIgn -e SigBlk /proc/self/status
		awk '{ print $19 }' /proc/self/stat; umask; ulimit -a; ls /proc/self/fd | wc -l`
	f := newFixture(t, "{ "+place+"; } > $HERE/place; echo ready; sleep 1000")
	f.spec.Limits.Pids = 50
	f.spec.Processes[0].UID, f.spec.Processes[0].GID, f.spec.Processes[0].Groups = 65534, 65534, []uint32{4242}
	if err := os.Chmod(f.root, 0o777); err != nil {
		t.Fatal(err)
	}
	open(t, f.root)
	f.start()
	f.says("0 out ready")
	f.started()
	want, err := os.ReadFile(filepath.Join(f.root, "place"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.said(place); got != string(want) {
		t.Errorf("the command has\n%s\nand its process\n%s", got, want)
	}
	group := strings.TrimSpace(f.said(`sed -n s/^0:://p /proc/self/cgroup`))
	if status, _ := f.Status(f.patient()); !strings.Contains(group, status.Cgroup+"/exec.") {
		t.Errorf("the command is in cgroup %s; that of the attempt is %s", group, status.Cgroup)
	}
	if entries, err := filepath.Glob(filepath.Join(f.group(), "exec.*")); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// open lets all users pass the directories above a test's own.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			if err := os.Chmod(dir, info.Mode()|0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestExecStreams: bytes pass as they are, statuses and signals too.
func TestExecStreams(t *testing.T) {
	f := newFixture(t, "echo ready; sleep 1000")
	f.start()
	f.started()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c := f.sh("cat; echo wrong >&2; exit 7")
	if _, err := c.in.Write(all); err != nil || c.in.Close() != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(c.out)
	complaint, _ := io.ReadAll(c.err)
	if end, err := c.Wait(); string(out) != string(all) || string(complaint) != "wrong\n" || end.Code != 7 || err != nil {
		t.Errorf("%q, %q, %+v, %v", out, complaint, end, err)
	}
	words := [][]byte{[]byte("printf"), []byte("%s|"), {0xff, 0xfe, '\n', 0x1b, '['}, []byte("$(id)`id`; '\"")}
	c, err := f.begin(ExecOrder{Command: words})
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := io.ReadAll(c.out); string(out) != string(words[2])+"|"+string(words[3])+"|" {
		t.Errorf("the command got %q", out)
	}
	c = f.sh("trap 'echo asked' INT; (trap 'echo child asked; exit' INT; echo ready; while :; do sleep 0.01; done); kill -KILL $$")
	f.reads(c, "ready\n")
	if err := c.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	out, _ = io.ReadAll(c.out)
	if end, err := c.Wait(); string(out) != "child asked\nasked\n" || end.Signal != int(unix.SIGKILL) || err != nil {
		t.Errorf("%q, %+v, %v", out, end, err)
	}
}

// TestExecLeft: nothing of a command is left after its end, nor once the agent is gone.
func TestExecLeft(t *testing.T) {
	f := newFixture(t, "echo ready; exec sleep 1000")
	f.start()
	f.says("0 out ready")
	f.started()
	const before = 1 // what it executes may not have its environment yet
	f.eventually("the process has begun", func() bool { return len(f.marked()) == before })
	const tree = "(trap '' TERM HUP; sleep 1000) & setsid -f sleep 1000 > /dev/null 2>&1; echo ready; "
	c := f.sh(tree)
	if end, err := c.Wait(); err != nil || end != (ExecEnd{}) {
		t.Errorf("%+v, %v", end, err)
	}
	if now := len(f.marked()); now != before {
		t.Errorf("%d processes are left of a command that has ended", now-before)
	}
	c = f.sh(tree + "sleep 1000")
	f.reads(c, "ready\n")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	f.eventually("nothing is left of a command without an agent", func() bool { return len(f.marked()) == before })
	f.eventually("its cgroup is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(f.group(), "exec.*"))
		return err == nil && len(left) == 0
	})
	for range 2 * maxExecs { // no slot is lost
		f.said("true")
	}
	f.noStays()
}

// noStays checks that no thread has stayed where it had only started a command.
func (f *fixture) noStays() {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.Directory(), errorsName))
	if err != nil || strings.Contains(string(text), "thread stays") {
		f.Errorf("%v: the supervisor says: %s", err, text)
	}
}

// TestExecOrphaned: the end of an attempt does not wait for commands, and they do not outlive it.
func TestExecOrphaned(t *testing.T) {
	f := newFixture(t, "echo ready; read line < $HERE/go", "trap '' TERM; echo ready; read line < $HERE/go2")
	f.spec.Grace = harness.Patience * 10 // a command that is waited for fails the test
	for _, name := range []string{"go", "go2"} {
		if err := unix.Mkfifo(filepath.Join(f.root, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	f.started()
	c := f.sh("trap '' TERM HUP; echo ready; while :; do sleep 0.01; done")
	f.reads(c, "ready\n")
	if err := os.WriteFile(filepath.Join(f.root, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(); err != nil || !end.Orphaned {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := f.begin(ExecOrder{Command: [][]byte{[]byte("true")}}); !errors.Is(err, ErrProcess) {
		t.Errorf("beside a process that has ended: %v", err)
	}
	other, err := f.begin(ExecOrder{Process: 1, Command: [][]byte{[]byte("sleep"), []byte("1000")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.root, "go2"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Completed, succeeded, succeeded)
	// The supervisor may have ended before it has told.
	if end, err := other.Wait(); (err != nil || !end.Orphaned) && !errors.Is(err, ErrEnded) {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := f.begin(ExecOrder{Command: [][]byte{[]byte("true")}}); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestExecRefused: what cannot be is refused with the reason, and leaves nothing.
func TestExecRefused(t *testing.T) {
	f := newFixture(t, "echo ready; sleep 1000")
	f.start()
	f.started()
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.root, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	word := func(text string) [][]byte { return [][]byte{[]byte(text)} }
	for _, each := range []struct {
		order ExecOrder
		want  error
		says  string
	}{
		{ExecOrder{Process: 1, Command: word("true")}, ErrProcess, "process 1"},
		{ExecOrder{Process: -1, Command: word("true")}, ErrProcess, "process -1"},
		{ExecOrder{}, ErrInvalid, "no command"},
		{ExecOrder{Command: word("a\x00b")}, ErrInvalid, "NUL"},
		{ExecOrder{Command: word("no-such-program")}, nil, "no program no-such-program"},
		{ExecOrder{Command: word("./data")}, nil, "not executable"},
		{ExecOrder{Command: word("true"), Restored: self}, ErrProcess, "not of this attempt"},
		{ExecOrder{Command: word(strings.Repeat("x", maxRequest))}, ErrInvalid, "bytes"},
	} {
		c, err := f.begin(each.order)
		if err == nil {
			_ = c.Close()
		}
		if err == nil || each.want != nil && !errors.Is(err, each.want) || !strings.Contains(err.Error(), each.says) {
			t.Errorf("%.80q: %v; want %q", each.order.Command, err, each.says)
		}
	}
	f.said("true")
}

// TestExecNamespaces: a command is where its process is, without rights that the process lacks.
func TestExecNamespaces(t *testing.T) {
	const inside = "mount -t tmpfs none /mnt && echo inside > /mnt/file && echo ready && sleep 1000"
	for name, script := range map[string]string{
		"root": "exec unshare --mount sh -c '" + inside + "'",
		"user": "exec unshare --user --map-root-user --mount --pid --fork --kill-child sh -c '" + inside + "'",
	} {
		t.Run(name, func(t *testing.T) {
			if err := exec.Command("unshare", "--user", "--mount", "true").Run(); err != nil {
				t.Skip("no namespaces here:", err)
			}
			f := newFixture(t, script)
			f.spec.Processes[0].Directory = "/"
			if name == "user" {
				f.spec.Processes[0].UID, f.spec.Processes[0].GID = 65534, 65534
			}
			f.start()
			f.says("0 out ready")
			f.started()
			defer f.noStays()
			if got := f.said("cat /mnt/file"); got != "inside\n" {
				t.Errorf("/mnt/file has %q", got)
			}
			if _, err := os.Stat("/mnt/file"); err == nil {
				t.Error("/mnt/file is outside, too")
			}
			if name == "root" {
				if got := f.said("grep NoNewPrivs /proc/self/status"); !strings.HasSuffix(got, "1\n") {
					t.Errorf("in a foreign mount namespace: %s", got)
				}
				return
			}
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := f.said(fmt.Sprintf("id -u; cat %s > /dev/null 2>&1 || echo refused", secret)); got != "0\nrefused\n" {
				t.Errorf("as root of the user namespace: %q", got)
			}
		})
	}
}
