package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// pair is two hosts: the first has the controller, the second an agent and phosd.
type pair struct {
	*testing.T
	controller, node *hosts.Host
	agent            *hosts.Daemon
	timed            int // processes
}

// orderedLine is what the agent logs when it gets an order.
const orderedLine = `msg="attempt ordered"`

// newPair starts a cluster of one node.
func newPair(t *testing.T) *pair {
	harness.Need(t, "build", harness.Built())
	all := hosts.New(t, 2, hosts.Options{})
	p := &pair{T: t, controller: all[0], node: all[1]}
	p.controller.Daemon(hosts.Daemon{
		Name: "controller", ReadyFD: true, Arguments: []string{filepath.Join(harness.Bin(), "phos-controller")},
	})
	p.node.Phosd(8, "--log-level=warn")
	token := p.controller.RunCLI("node", "token")
	agent := filepath.Join(harness.Bin(), "phos-agent")
	p.node.Run(agent, "join", harness.JoinToken(token))
	p.agent = p.node.Daemon(hosts.Daemon{
		Name: "agent", ReadyFD: true, Arguments: []string{agent, "run", "--allow-root", "--log-level=debug"},
	})
	harness.Eventually(t, "the node is ready", func() bool {
		return strings.Contains(p.controller.RunCLI("node", "list"), "ready")
	})
	return p
}

// next returns a process whose first instruction opens a FIFO of its own, and what the test sees of
// that.
func (p *pair) next() (script []string, fifo string) {
	p.Helper()
	p.timed++
	name := fmt.Sprint("first", p.timed)
	fifo = filepath.Join(p.node.Shared(), name)
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		p.Fatal(err)
	}
	return []string{"/bin/sh", "-c", ": > " + filepath.Join(hosts.SharedDir, name)}, fifo
}

// awaitFirst returns when a process has reached its first instruction.
func (p *pair) awaitFirst(fifo string) time.Time {
	p.Helper()
	file, err := os.Open(fifo) // it blocks until the process opens it, too
	at := time.Now()
	if err != nil {
		p.Fatal(err)
	}
	_ = file.Close()
	return at
}

// bare returns how long a fork and exec on the node takes to the first instruction.
func (p *pair) bare() time.Duration {
	p.Helper()
	script, fifo := p.next()
	command := p.node.Command(p.Context(), script...)
	began := time.Now()
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	first := p.awaitFirst(fifo)
	_ = command.Wait()
	return first.Sub(began)
}

// launched returns how long it takes from phos launch on the other host, and how much of it was
// after the agent had the order.
func (p *pair) launched(flags ...string) (all, onNode time.Duration) {
	p.Helper()
	script, fifo := p.next()
	arguments := slices.Concat([]string{"launch"}, flags, []string{"--"}, script)
	command := p.controller.CLI(p.Context(), arguments...)
	command.Dir = hosts.SharedDir + "/code"
	began := time.Now()
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	first := p.awaitFirst(fifo)
	if err := command.Wait(); err != nil {
		p.Fatal(err)
	}
	return first.Sub(began), first.Sub(p.lastOrder())
}

// lastOrder returns when the agent got its last order.
func (p *pair) lastOrder() time.Time {
	p.Helper()
	text := p.agent.LogText()
	line := text[strings.LastIndex(text[:strings.LastIndex(text, orderedLine)], "\n")+1:]
	word, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	at, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		p.Fatal(err)
	}
	return at
}

// startsOnHosts measures a launch on an idle cluster, and what an agent costs.
func startsOnHosts(t *testing.T, b *bench) []row {
	p := newPair(t)
	if err := os.MkdirAll(filepath.Join(p.controller.Shared(), "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.controller.Shared(), "code", "train.py"), []byte("print('epoch')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	var bare, sent, codeless, onNode []float64
	for range 5 * b.rounds {
		bare = append(bare, milliseconds(p.bare()))
		all, _ := p.launched("--gpus=1")
		sent = append(sent, milliseconds(all))
		all, part := p.launched("--gpus=1", "--no-code")
		codeless, onNode = append(codeless, milliseconds(all)), append(onNode, milliseconds(part))
	}
	one := median(bare)
	return append([]row{
		{
			name: "phos launch to the first instruction", value: median(sent) - one, unit: "ms", most: 100,
			note: fmt.Sprintf("on another host, above a fork and exec of %.1f ms there; %.0f ms without code", one, median(codeless)-one),
		},
		{
			name: "the agent's part of a start", value: median(onNode) - one, unit: "ms", most: 10,
			note: "from its order to the first instruction, above the same fork and exec",
		},
	}, p.idleAgent(b.idle)...)
}

// idleAgent measures an agent that has nothing to do.
func (p *pair) idleAgent(while time.Duration) []row {
	p.Helper()
	pid := p.agent.OuterPID()
	share := processorShare(p.T, while, pid)
	return []row{
		{name: "an idle agent", value: share * 100, unit: "%", most: 0.3, note: fmt.Sprint("of a core, over ", while)},
		{name: "an idle agent's memory", value: residentMiB(p.T, pid), unit: "MiB", most: 60},
	}
}

// residentMiB returns the memory that a process has now.
func residentMiB(t *testing.T, pid int) float64 {
	t.Helper()
	return statusKiB(t, pid, "VmRSS:") / (1 << 10)
}
