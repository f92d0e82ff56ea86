package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// cutHosts is over how many hosts a cut is measured.
const cutHosts = 4

// crowd is a cluster of several hosts, the first of which has the controller, too.
type crowd struct {
	*testing.T
	all            []*hosts.Host
	phosds, agents []*hosts.Daemon
}

// newCrowd starts a cluster, whose phosds have some flags.
func newCrowd(t *testing.T, count int, flags ...string) *crowd {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	harness.Need(t, "build", harness.Built())
	c := &crowd{T: t, all: hosts.New(t, count, hosts.Options{})}
	c.all[0].Daemon(hosts.Daemon{
		Name: "controller", ReadyFD: true, Arguments: []string{filepath.Join(harness.Bin(), "phos-controller")},
	})
	for _, h := range c.all {
		c.phosds = append(c.phosds, h.Phosd(1, flags...))
		agent := filepath.Join(harness.Bin(), "phos-agent")
		h.Run(agent, "join", harness.JoinToken(c.all[0].RunCLI("node", "token")))
		c.agents = append(c.agents, h.Daemon(hosts.Daemon{
			Name: "agent", ReadyFD: true, Arguments: []string{agent, "run", "--allow-root"},
		}))
	}
	harness.Eventually(t, "all nodes are ready", func() bool {
		return strings.Count(c.cli("node", "list"), "ready") == count
	})
	return c
}

// cli runs a command for people.
func (c *crowd) cli(arguments ...string) string { return c.all[0].RunCLI(arguments...) }

// launch launches something, and returns its id.
func (c *crowd) launch(arguments ...string) string {
	c.Helper()
	said := c.cli(append([]string{"launch", "--no-code", "--json"}, arguments...)...)
	var launched []struct{ ID string }
	if err := json.Unmarshal([]byte(said), &launched); err != nil || len(launched) != 1 {
		c.Fatalf("%v: %s", err, said)
	}
	return launched[0].ID
}

// measureCut compares the pause of a cut over several hosts with what the slowest of them needs
// for its own part, and what networks of their own cost replicas that talk to each other.
func measureCut(t *testing.T, b *bench) []row {
	c := newCrowd(t, cutHosts, "--log-level=debug")
	return append(c.pauses(b), c.talks(b)...)
}

// partOf finds what a phosd says of its part of a cut.
var partOf = regexp.MustCompile(`msg="checkpoint taken".* pause=(\S+) |msg="checkpoint steps".* paused="?map\[([^\]]*)\]`)

// parts returns the pauses of the checkpoints that a phosd has taken, and how long each has frozen
// and cut its own program.
func parts(t *testing.T, log string) (pauses, own []time.Duration) {
	t.Helper()
	for _, found := range partOf.FindAllStringSubmatch(log, -1) {
		if found[1] != "" {
			pause, err := time.ParseDuration(found[1])
			if err != nil {
				t.Fatal(err)
			}
			pauses = append(pauses, pause)
			continue
		}
		var sum time.Duration
		for _, each := range strings.Fields(found[2]) {
			name, text, _ := strings.Cut(each, ":")
			took, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			if name == "freeze" || name == "cut" {
				sum += took
			}
		}
		own = append(own, sum)
	}
	return pauses, own
}

// pauses measures the pauses of cuts.
func (c *crowd) pauses(b *bench) []row {
	program := harness.CompileC(c.T, true, harness.Workload("checkpoint", "count.c"))
	on := filepath.Join(hosts.SharedDir, "on")
	id := c.launch("--replicas", fmt.Sprint(cutHosts), "--gpus=1", "--", program, "1000000", "100000", "2000", on)
	harness.Eventually(c.T, "it runs", func() bool { return strings.Contains(c.cli("ps"), "running") })
	for range b.rounds + 1 { // the first one copies everything
		c.cli("checkpoint", id)
	}
	var ratios, longest []float64
	for round := 1; round <= b.rounds; round++ {
		var pause, own time.Duration
		for _, phosd := range c.phosds {
			pauses, owns := parts(c.T, phosd.LogText())
			if len(pauses) <= round || len(owns) <= round {
				c.Fatalf("%d pauses and %d parts of %d cuts", len(pauses), len(owns), b.rounds+1)
			}
			pause, own = max(pause, pauses[round]), max(own, owns[round])
		}
		ratios, longest = append(ratios, pause.Seconds()/own.Seconds()), append(longest, pause.Seconds())
	}
	c.cli("stop", id)
	return []row{{
		name: fmt.Sprintf("cut over %d hosts: pause / the slowest host's own freeze and cut", cutHosts), value: median(ratios),
		most: 1.5, note: milliseconds(median(longest)),
	}}
}

// talks compares networks of replicas with those of their hosts.
func (c *crowd) talks(b *bench) []row {
	python := os.Getenv("TRAINING_PYTHON")
	if python == "" {
		python = "/usr/bin/python3" // without torch: only the stream
	}
	script := filepath.Join(c.all[0].Shared(), "talk.py")
	c.all[0].Run("install", "-m", "644", harness.Path("tests", "bench", "testdata", "talk.py"), filepath.Join(hosts.SharedDir, "talk.py"))
	if _, err := os.Stat(script); err != nil {
		c.Fatal(err)
	}
	rates, reduces := map[string][]float64{}, map[string][]float64{}
	for range b.rounds {
		for _, network := range []string{"host", "own"} {
			id := c.launch("--replicas=2", "--gpus=1", "--network", network, "--", python, filepath.Join(hosts.SharedDir, "talk.py"))
			if said, err := c.all[0].CLI(c.Context(), "wait", id).CombinedOutput(); err != nil {
				c.Fatalf("network %s: %v: %s\n%s", network, err, said, c.cli("logs", id))
			}
			var rate, reduce float64
			said := c.cli("logs", id+"/main.0")
			if _, err := fmt.Sscanf(said[max(0, strings.Index(said, "rate")):], "rate %g reduce %g", &rate, &reduce); err != nil {
				c.Fatalf("%v: %s", err, said)
			}
			rates[network], reduces[network] = append(rates[network], rate), append(reduces[network], reduce)
		}
	}
	rows := []row{{
		name: "networks of launches: one TCP stream / over the hosts' own", value: median(rates["own"]) / median(rates["host"]),
		least: 0.6, note: fmt.Sprintf("%.0f MiB/s", median(rates["own"])/mebibyte),
	}}
	if median(reduces["host"]) > 0 {
		rows = append(rows, row{
			name: "networks of launches: gloo's all-reduce of 4 MiB / over the hosts' own", value: median(reduces["host"]) / median(reduces["own"]),
			least: 0.9, note: milliseconds(median(reduces["own"])),
		})
	}
	return rows
}
