package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
	"github.com/phos-gpu/phos/tests/hosts"
)

// faults are what happens to a migration, by name.
var faults = map[string]func(*pair){
	"target's command": func(p *pair) { kill(p.to, "[-]-take-over") },
	"source's command": func(p *pair) { kill(p.from, "[-]-migrate") },
	"ssh":              func(p *pair) { kill(p.from, "^ssh -i") },
	"target's phosd":   func(p *pair) { p.restart(p.to) },
	"source's phosd":   func(p *pair) { p.restart(p.from) },
}

// kill kills the processes of a host whose command lines match a pattern, which must not match
// itself.
func kill(on *hosts.Host, pattern string) {
	on.Run("sh", "-c", `pkill -9 -f -- "$1" || true`, "sh", pattern)
}

// restart kills a phosd, and starts another one.
func (p *pair) restart(on *hosts.Host) {
	p.phosds[on].Kill()
	p.phosds[on].Start()
}

// points are steps of a phosd at which a migration is disturbed: while the program is handed over,
// which takes so little time that random times miss it.
var points = map[string]func(*pair) (phosd *hosts.Daemon, step string){
	"restoring": func(p *pair) (*hosts.Daemon, string) { return p.phosds[p.to], "name=processes" },
	"restored":  func(p *pair) (*hosts.Daemon, string) { return p.phosds[p.to], "name=restore-hold" },
	"ending":    func(p *pair) (*hosts.Daemon, string) { return p.phosds[p.from], "name=end" },
	"going":     func(p *pair) (*hosts.Daemon, string) { return p.phosds[p.to], "name=keep" },
	"ended":     func(p *pair) (*hosts.Daemon, string) { return p.phosds[p.from], "stopped=true" },
}

// TestFaults kills what takes part in a migration: at random times, and while the program
// is handed over. The program runs on one host and only one, or it is in an image that is complete.
// It makes each step once.
func TestFaults(t *testing.T) {
	p := newPair(t)
	program := p.start(work, "100000", "20000", "20000", work+"/end")
	p.awaitSteps(p.from, 3)
	pid := program.PID()
	go func() { _ = program.Wait() }() // it leaves no zombie with its pid
	for i := range rounds.Of(12, 200) {
		for name := range faults { // in a random order
			for point := range points {
				t.Logf("round %d: %s, %s", i, name, point)
				p.disturb(pid, name, p.await(point, i))
				break
			}
			break
		}
	}
	p.from.Run("touch", work+"/end")
	harness.Eventually(t, "the program ends", func() bool { return len(pids(p.from)) == 0 })
	p.checkSteps()
}

// await returns what waits for a point of the next migration; in each third round, for any time.
func (p *pair) await(point string, round int) func() {
	if round%3 == 0 {
		delay := time.Duration(rand.Int64N(int64(1300 * time.Millisecond)))
		return func() { time.Sleep(delay) }
	}
	phosd, step := points[point](p)
	before := strings.Count(phosd.LogText(), step)
	if point == "ending" {
		before += 3 // the ends of the checkpoints of rounds
	}
	limit := time.Now().Add(3 * time.Second)
	return func() {
		for strings.Count(phosd.LogText(), step) == before && time.Now().Before(limit) {
			time.Sleep(time.Millisecond)
		}
		p.Logf("%s was reached: %t", point, time.Now().Before(limit))
	}
}

// checkSteps checks that the program has made each step once: it says itself if a result is wrong.
func (p *pair) checkSteps() {
	p.Helper()
	lines := strings.Split(strings.TrimSpace(p.from.Run("cat", work+"/steps")), "\n")
	for i, line := range lines {
		if number, _, _ := strings.Cut(line, " "); number != fmt.Sprint(i) {
			p.Fatalf("line %d is %q, after %q", i, line, lines[max(i-1, 0)])
		}
	}
}

// disturb begins a migration and disturbs it. Afterwards p.from is where the program runs.
func (p *pair) disturb(pid int, name string, point func()) {
	p.Helper()
	var said strings.Builder
	command := p.migrate(context.Background(), pid)
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	point()
	faults[name](p)
	failed := command.Wait()
	p.Logf("%v: %s", failed, said.String())
	p.settle(said.String())
	if name != "target's command" { // which cannot remove what it has when it is killed
		harness.Eventually(p, "the image that has arrived is removed", func() bool {
			return p.to.Run("sh", "-c", "ls -d /dev/shm/phos-take-over-* 2>/dev/null || true") == ""
		})
	}
	if failed == nil && len(pids(p.to)) != 1 {
		p.Errorf("it says that the program runs on %s", p.to.Name)
	}
	if len(pids(p.to)) == 1 {
		p.from, p.to = p.to, p.from
	}
	p.awaitSteps(p.from, 2)
	p.cleanUp()
}

// settle waits until the program runs on one host, or restores it from the image that is left.
func (p *pair) settle(said string) {
	p.Helper()
	var on []string
	same := 0 // looks in a row: what a restore is undoing is there for a little while
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		before := fmt.Sprint(on)
		on = nil
		for _, each := range []*hosts.Host{p.from, p.to} {
			for _, pid := range pids(each) {
				on = append(on, fmt.Sprintf("%d on %s", pid, each.Name))
			}
		}
		if same++; fmt.Sprint(on) != before {
			same = 0
		}
		if len(on) == 1 && same > 10 {
			return
		}
	}
	if len(on) > 1 {
		p.Fatalf("the program runs twice: %v: %s", on, said)
	}
	left := strings.Fields(p.from.Run("sh", "-c", "ls -d /dev/shm/phos-migrate-* 2>/dev/null || true"))
	if len(left) != 1 {
		p.Fatalf("the program runs nowhere, and images are %v: %s", left, said)
	}
	p.Logf("restored from %s", left[0])
	p.from.RunCLI("--restore", "--detach", "--trust-seal", "--dir", left[0])
	harness.Eventually(p, "it is restored", func() bool { return len(pids(p.from)) == 1 })
}

// cleanUp removes what killed commands have left.
func (p *pair) cleanUp() {
	for _, each := range []*hosts.Host{p.from, p.to} {
		each.Run("sh", "-c", "rm -rf "+filepath.Join("/dev/shm", "phos-*"))
	}
}
