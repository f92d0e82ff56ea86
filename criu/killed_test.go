package criu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/watchdog"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// busy computes in several threads and processes. Each checks itself and answers a signal.
const busy = `
import signal, threading
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
kid = os.fork()
stop = threading.Event()
failures = []
def work(seed):
    while not stop.is_set():
        x = seed
        for i in range(2000): x = (x * 1664525 + 1013904223) % (1 << 32)
        y = seed
        for i in range(2000): y = (y * 1664525 + 1013904223) & 0xffffffff
        if x != y: failures.append(seed)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads: t.start()
if kid: step('one')
while not asked: time.sleep(0.01)
stop.set()
for t in threads: t.join()
if not kid: os._exit(len(failures))
os.kill(kid, signal.SIGUSR1)
_, status = os.waitpid(kid, 0)
say('done', len(failures), status)
`

// TestCRIUKilled kills CRIU at many moments of its work. The program continues undisturbed, or it
// was killed and the error says so; it is never left broken.
func TestCRIUKilled(t *testing.T) {
	count := rounds.Of(2, 8)
	cpu := newCPU(t)
	outcomes := make(map[string]int)
	for round := range count {
		outcomes[killedRound(t, cpu, time.Duration(round)*60*time.Millisecond/time.Duration(count))]++
	}
	t.Log(outcomes)
}

// TestDumpDeadline: the deadline passes at many moments of CRIU's work. CRIU leaves the program by
// itself, and the program always survives.
func TestDumpDeadline(t *testing.T) {
	for _, uid := range []int{0, ordinary} {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) { dumpDeadlines(t, uid) })
	}
}

func dumpDeadlines(t *testing.T, uid int) {
	count := rounds.Of(1, 12)
	cpu := newCPU(t)
	outcomes := make(map[string]int)
	for round := range count {
		command := python(t, directory(t, uid), busy)
		if uid != 0 {
			asUser(command)
		}
		s := begin(t, command)
		s.says("at one")
		tree, frozen := s.freeze(cpu)
		limited, cancel := context.WithTimeout(
			within(t),
			time.Duration(round)*80*time.Millisecond/time.Duration(count)+rand.N(5*time.Millisecond),
		)
		err := frozen.Dump(limited, images(t, int(tree.Processes[0].UID)))
		cancel()
		if thawed := frozen.Thaw(); thawed != nil {
			t.Fatal(thawed)
		}
		outcome := "in time"
		if err != nil {
			outcome = "given up"
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, watchdog.ErrDamaged) {
				t.Errorf("got error %v", err)
			}
		}
		outcomes[goesOn(t, s, outcome)]++
	}
	t.Log(outcomes)
}

// killedRound kills CRIU that long after its start, and returns the outcome.
func killedRound(t *testing.T, cpu *CPU, after time.Duration) string {
	s := begin(t, python(t, directory(t, 0), busy))
	s.says("at one")
	tree, frozen := s.freeze(cpu)
	dumped := make(chan error, 1)
	go func() { dumped <- frozen.Dump(within(t), images(t, int(tree.Processes[0].UID))) }()
	killed := killCRIU(after + rand.N(5*time.Millisecond))
	err := <-dumped
	if thawed := frozen.Thaw(); thawed != nil {
		t.Fatal(thawed)
	}
	if err == nil {
		return goesOn(t, s, "too late")
	}
	if !killed {
		t.Fatalf("failed before the kill: %v", err)
	}
	if errors.Is(err, watchdog.ErrDamaged) {
		for _, p := range tree.Processes {
			eventually(t, fmt.Sprint("pid ", p.PID, " is gone"), func() bool { return ended(p.Identity) })
		}
		return "gone"
	}
	return goesOn(t, s, "repaired")
}

// TestWatchdogKilled kills the watchdog at many moments of CRIU's work, as root's and as a user's
// program, and before the next phosd sweeps or this one does. CRIU is not killed with it, and the
// program always survives.
func TestWatchdogKilled(t *testing.T) {
	for _, uid := range []int{0, ordinary} {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			count := rounds.Of(6, 30)
			cpu := newCPU(t)
			outcomes := make(map[string]int)
			for round := range count {
				outcomes[watchdogRound(t, cpu, uid, time.Duration(round)*60*time.Millisecond/time.Duration(count))]++
			}
			t.Log(outcomes)
		})
	}
}

// watchdogRound kills the watchdog that long after the start of its CRIU, and returns the outcome.
func watchdogRound(t *testing.T, cpu *CPU, uid int, after time.Duration) string {
	command := python(t, directory(t, uid), busy)
	if uid != 0 {
		asUser(command)
	}
	s := begin(t, command)
	s.says("at one")
	tree, frozen := s.freeze(cpu)
	dumped := make(chan error, 1)
	go func() { dumped <- frozen.Dump(within(t), images(t, int(tree.Processes[0].UID))) }()
	killed := killWatchdog(after + rand.N(5*time.Millisecond))
	err := <-dumped
	thawed := frozen.Thaw()
	if err == nil && thawed == nil {
		return goesOn(t, s, "too late")
	}
	if !killed {
		t.Fatalf("failed before the kill: %v", err)
	}
	if errors.Is(errors.Join(err, thawed), watchdog.ErrDamaged) {
		t.Errorf("the program was lost: %v", errors.Join(err, thawed))
		return "gone"
	}
	return goesOn(t, s, "survived")
}

func ended(id proc.Identity) bool {
	stat, err := proc.ReadStat(id.PID)
	return err != nil || stat.Identity != id || stat.Zombie()
}

// goesOn checks that the program is undisturbed.
func goesOn(t *testing.T, s *subject, outcome string) string {
	t.Helper()
	s.allow("one")
	if err := unix.Kill(s.root.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.says("done 0 0")
	return outcome
}

// killCRIU waits for a CRIU below this process, and then kills it after a delay.
func killCRIU(after time.Duration) bool {
	return killFound(after, func(criu *proc.Stat) int { return criu.PID })
}

// killWatchdog kills the parent of the CRIU that killCRIU kills.
func killWatchdog(after time.Duration) bool {
	return killFound(after, func(criu *proc.Stat) int { return criu.Parent })
}

func killFound(after time.Duration, victim func(criu *proc.Stat) int) bool {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return false
	}
	for end := time.Now().Add(patience / 10); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		tree, err := proc.Tree(self)
		if err != nil {
			return false
		}
		for _, stat := range tree {
			command, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(stat.PID), "cmdline"))
			if err == nil && strings.Contains(string(command), "\x00swrk\x00") {
				time.Sleep(after)
				return unix.Kill(victim(stat), unix.SIGKILL) == nil
			}
		}
	}
	return false
}
