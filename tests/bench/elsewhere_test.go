package bench

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/hosts"
)

// movable is a launch on two hosts that holds device memory, with the page that controls it.
type movable struct {
	*holder
	*crowd
	id string
}

// startMovable starts a cluster of two hosts, and a launch on one of them.
func startMovable(t *testing.T, b *bench) *movable {
	c := newCrowd(t, 2, fmt.Sprintf("--gpus=soft:1,memory=%dMiB", 2*b.bytes/mebibyte), "--log-level=warn")
	page := newPage(t, filepath.Join(c.all[0].Shared(), "page"))
	m := &movable{holder: &holder{t: t, page: page, bytes: b.bytes}, crowd: c}
	m.id = c.launch("--gpus=1", "--", b.compiledMemoryProgram(t), hosts.SharedDir+"/page", fmt.Sprint(b.bytes/mebibyte))
	m.await("its memory is written", func() bool { return m.get(steps) > 0 })
	return m
}

// sent returns how many bytes the agents have sent so far.
func (m *movable) sent() (sum float64) {
	m.t.Helper()
	for _, agent := range m.agents {
		for _, found := range regexp.MustCompile(`msg="image sent".* bytes=(\d+)`).FindAllStringSubmatch(agent.LogText(), -1) {
			bytes, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				m.t.Fatal(err)
			}
			sum += bytes
		}
	}
	return sum
}

// measureElsewhere moves a launch that rewrites 1 % of its memory a second between two hosts, and
// compares how long it makes no step with that when it is suspended and resumed on the other host,
// and with that during a checkpoint.
func measureElsewhere(t *testing.T, b *bench) []row {
	m := startMovable(t, b)
	m.set(rewriteBytesPerSecond, b.bytes/100)
	var still, whole, pauses, sent []float64
	cli := m.cli
	for i := range b.rounds {
		m.waitStep()
		pauses = append(pauses, m.longestGap(func() { cli("checkpoint", m.id) }))

		to := fmt.Sprintf("node%d", 2-i%2)
		if at := m.view().node(); at == to {
			to = map[string]string{"node1": "node2", "node2": "node1"}[at]
		}
		before := m.sent()
		still = append(still, m.longestGap(func() { cli("migrate", m.id, "--to", to) }))
		sent = append(sent, (m.sent()-before)/float64(b.bytes))

		whole = append(whole, m.longestGap(func() {
			cli("suspend", m.id)
			m.await("it is suspended", func() bool { return m.view().Phase == "suspended" })
			cli("node", "cordon", m.view().node())
			cli("resume", m.id)
			m.await("it runs", func() bool { return m.view().Phase == "running" })
			m.waitStep()
		}))
		for _, node := range []string{"node1", "node2"} {
			cli("node", "uncordon", node)
		}
	}
	m.set(quit, 1)
	m.await("the program ends", func() bool { return m.get(verified) == 1 })
	return []row{
		{
			name: "moved to another host: stands still / save, copy and restore", value: median(still) / median(whole),
			most: 1.0 / 20, note: fmt.Sprintf("%s of %.2f s", milliseconds(median(still)), median(whole)),
		},
		{
			name: "moved to another host: stands still / a checkpoint's pause", value: median(still) / median(pauses), most: 3,
			note: "of " + milliseconds(median(pauses)),
		},
		{name: "moved to another host: bytes sent / its memory", value: median(sent), most: 1.15},
	}
}

// launchView is what phos show --json prints, as far as it is needed.
type launchView struct {
	Phase    string
	Replicas []struct{ Node string }
}

// node returns the node that the launch is on, or was on last.
func (v launchView) node() string { return v.Replicas[0].Node }

// view returns how the launch is.
func (m *movable) view() (view launchView) {
	m.t.Helper()
	said := m.cli("show", m.id, "--json")
	if err := json.Unmarshal([]byte(said), &view); err != nil || len(view.Replicas) != 1 {
		m.t.Fatalf("%v: %s", err, said)
	}
	return view
}
