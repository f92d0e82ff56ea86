package criu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestPIDTaken: an image cannot be restored beside the running program.
func TestPIDTaken(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), "step('one'); say('done')"))
	s.says("at one")
	saved := s.save(cpu, false)
	_, err := cpu.Restore(within(t), saved.order(t))
	if !errors.Is(err, restorer.ErrPIDTaken) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d ", s.root.PID)) ||
		!strings.Contains(err.Error(), "--new-pids") || !strings.Contains(err.Error(), s.root.Name()) {
		t.Fatalf("restore beside the running program: %v", err)
	}
	s.allow("one")
	s.says("done")
}

// cloned reports what a clone sees, and works in its own directory, which it learns from its
// output.
const cloned = `
import threading, signal
pid, parent = os.getpid(), os.getppid()
kid = os.fork()
if kid == 0:
    while True: time.sleep(1000)
count = 0
print('ready', flush=True)
while True:
    line = sys.stdin.readline().strip()
    if line == 'end': break
    count += 1
    assert os.getpid() == pid and os.path.basename(os.readlink('/proc/self')) == str(pid)
    assert not os.path.exists('/proc/%d' % (1 << 21))
    print(line, count, os.readlink('/proc/%d/exe' % kid) == os.readlink('/proc/self/exe'), flush=True)
os.kill(kid, signal.SIGKILL)
assert os.waitpid(kid, 0) == (kid, 9)
sys.exit(7)
`

// clone is a restored program with pipes.
type clone struct {
	t    *testing.T
	back ckpt.Restored
	in   *os.File
	out  *os.File
}

func (r *saved) clone(t *testing.T, cpu *CPU) *clone {
	t.Helper()
	order := r.order(t)
	order.NewPids = true
	inner, outer := pipes(t)
	for _, end := range r.tree.Endpoints {
		if end.Standard >= 0 {
			giveTo(t, inner[end.Standard], order.UID)
			order.Endpoints[end.ID] = inner[end.Standard]
		}
	}
	c := &clone{t: t, back: r.restore(t, cpu, order), in: outer[0], out: outer[1]}
	inner[0].Close()
	inner[1].Close()
	return c
}

func (c *clone) asks(line, want string) {
	c.t.Helper()
	fmt.Fprintln(c.in, line)
	c.says(want)
}

func (c *clone) says(want string) {
	c.t.Helper()
	var got []byte
	for letter := make([]byte, 1); !bytes.HasSuffix(got, []byte("\n")); got = append(got, letter...) {
		if _, err := c.out.Read(letter); err != nil {
			c.t.Fatalf("%q, %v", got, err)
		}
	}
	if string(got) != want+"\n" {
		c.t.Fatalf("got %q, want %q", got, want)
	}
}

// TestTwoClones: one image, restored twice beside the running program, gives three programs. A
// clone can be saved and restored again, with new pids and without.
func TestTwoClones(t *testing.T) {
	for _, uid := range []int{0, ordinary} {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			cpu := newCPU(t)
			command := python(t, directory(t, uid), cloned)
			if uid != 0 {
				asUser(command)
			}
			inner, outer := pipes(t)
			command.Stdin, command.Stdout = inner[0], inner[1]
			s := begin(t, command)
			inner[0].Close()
			inner[1].Close()
			original := &clone{t: t, in: outer[0], out: outer[1]}
			original.says("ready")
			original.asks("a", "a 1 True")
			saved := s.save(cpu, false)
			first, second := saved.clone(t, cpu), saved.clone(t, cpu)
			first.asks("b", "b 2 True")
			second.asks("c", "c 2 True")
			original.asks("c", "c 2 True")
			ours := first.back.Processes()
			if len(ours) != 2 || ours[s.root.PID] == (proc.Identity{}) || ours[s.root.PID].PID == s.root.PID {
				t.Fatalf("processes %v of root %d", ours, s.root.PID)
			}
			// Again, from inside its namespace.
			again := &subject{t: t, root: ours[s.root.PID], out: s.out}
			savedAgain := again.save(cpu, true)
			if status, err := proc.ReadStatus(s.root.PID); err != nil || status.InnermostPID() != s.root.PID {
				t.Fatalf("original: %v", err)
			}
			third := savedAgain.clone(t, cpu)
			if third.back.Processes()[again.root.PID] == (proc.Identity{}) {
				t.Errorf("processes %v do not have the pid %d of the dump", third.back.Processes(), again.root.PID)
			}
			third.asks("d", "d 3 True")
			second.asks("e", "e 3 True")
			for _, c := range []*clone{second, third} {
				fmt.Fprintln(c.in, "end")
				ends(t, c.back, 7)
			}
			fmt.Fprintln(original.in, "end")
		})
	}
}

// TestLowPIDs: pids in a container are small, and a restorer's own threads must not take them.
func TestLowPIDs(t *testing.T) {
	cpu := newCPU(t)
	dir := directory(t, 0)
	program := python(t, dir, "step('one'); say('done', os.getpid()); sys.exit(7)")
	code := filepath.Join(dir, "program.py")
	if err := os.WriteFile(code, []byte(program.Args[3]), 0o644); err != nil {
		t.Fatal(err)
	}
	// The first process of a container starts one program and waits.
	container := exec.Command(
		"unshare",
		"--pid",
		"--fork",
		"--mount-proc",
		"setsid",
		"sh",
		"-c",
		"'"+program.Path+"' -u program.py & wait",
	)
	container.Dir, container.Env, container.SysProcAttr = dir, program.Env, program.SysProcAttr
	s := begin(t, container)
	s.says("at one")
	tree, err := proc.Tree(s.root)
	if err != nil {
		t.Fatal(err)
	}
	s.root = tree[len(tree)-1].Identity
	saved := s.save(cpu, true)
	order := saved.order(t)
	order.NewPids = true
	back := saved.restore(t, cpu, order)
	s.allow("one")
	ends(t, back, 7)
	if !strings.Contains(s.text(), "done 2\n") && !strings.Contains(s.text(), "done 3\n") {
		t.Errorf("got pid %s", s.text())
	}
}

// TestAdopt: a tree is found by its restorer's socket alone.
func TestAdopt(t *testing.T) {
	cpu := newCPU(t)
	for _, news := range []bool{false, true} {
		s := begin(
			t,
			python(
				t,
				directory(t, 0),
				"import signal; signal.signal(signal.SIGUSR1, lambda *a: say('signal')); step('one'); sys.exit(7)",
			),
		)
		s.says("at one")
		saved := s.save(cpu, true)
		order := saved.order(t)
		order.NewPids = news
		back := saved.restore(t, cpu, order)
		adopted, err := cpu.Adopt(within(t), order.Control)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := adopted.Processes(), back.Processes(); len(got) != 1 || got[s.root.PID] != want[s.root.PID] {
			t.Errorf("adopted %v, restored %v", got, want)
		}
		if err := adopted.Signal(10); err != nil {
			t.Error(err)
		}
		s.says("signal")
		s.allow("one")
		ends(t, adopted, 7)
		eventually(t, "restorer has ended", func() bool {
			_, err := cpu.Adopt(within(t), order.Control)
			return errors.Is(err, proc.ErrGone)
		})
	}
}
