package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// Where controllers and agents serve their numbers if they are told nothing.
const (
	controllerNumbers = "127.0.0.1:9411"
	agentNumbers      = "127.0.0.1:9412"
)

// scrape returns the numbers that a host serves at an address.
func (s *site) scrape(h *hosts.Host, address string) string {
	s.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx, "tcp", address) },
	}}
	reply, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		s.Fatalf("%s: %v: %s", reply.Status, err, text)
	}
	return string(text)
}

// number returns the value of a metric with its labels.
func (s *site) number(text, name string) float64 {
	s.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		s.Errorf("there is no %s", name)
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		s.Errorf("%s: %v", name, err)
	}
	return value
}

// TestNumbers compares what controller and agent tell Prometheus with a cluster that is known.
func TestNumbers(t *testing.T) {
	s := newSite(t, 2, 2)
	start := time.Now().Add(-time.Minute)
	running := s.launch(shell("sleep 1000", 1, 2))
	busy := s.awaitRunning(running).GetReplicas()[0].GetNode()
	s.launch(shell("true", 2, 2)) // which needs both nodes
	s.await(s.launch(shell("true", 1, 0)), "ended")
	other := s.hosts[1].Name
	if busy == other {
		other = s.hosts[0].Name
	}
	s.cordon(other, true)
	text := s.scrape(s.hosts[0], controllerNumbers)
	reply := sure(s, s.cluster.ListNodes, &api.ListNodesRequest{})
	model := reply.GetNodes()[0].GetInventory().GetGpus()[0].GetName()
	for name, want := range map[string]float64{
		`phos_controller_leads`:                                    1,
		`phos_launches{state="running"}`:                           1,
		`phos_launches{state="queued"}`:                            1,
		`phos_launches{state="ended"}`:                             1,
		`phos_launches{state="waiting"}`:                           0,
		`phos_queue_depth`:                                         1,
		`phos_queue_wait_seconds_count`:                            2,
		`phos_nodes{state="ready"}`:                                2,
		fmt.Sprintf(`phos_gpus{model=%q,state="ours"}`, model):     2,
		fmt.Sprintf(`phos_gpus{model=%q,state="cordoned"}`, model): 2,
		`phos_scheduling_attempts_total{result="placed"}`:          2,
		`phos_scheduling_attempts_total{result="preempted"}`:       0,
	} {
		if got := s.number(text, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, h := range s.hosts {
		seen := s.number(text, fmt.Sprintf("phos_node_last_seen_timestamp_seconds{node=%q}", h.Name))
		if seen < float64(start.Unix()) || seen > float64(time.Now().Add(time.Minute).Unix()) {
			t.Errorf("%s was seen at %v", h.Name, seen)
		}
	}
	if s.number(text, `phos_store_txn_duration_seconds_count{op="put",result="ok"}`) < 3 {
		t.Error("three launches were written by fewer requests")
	}
	own := s.scrape(s.host(busy), agentNumbers)
	if got := s.number(own, `phos_agent_attempts{state="running"}`); got != 1 {
		t.Errorf("%v attempts run", got)
	}
	if s.number(own, "phos_agent_attached") != 1 ||
		s.number(own, "phos_agent_certificate_expiry_timestamp_seconds") < float64(start.Add(29*24*time.Hour).Unix()) {
		t.Error("the agent is not attached, or its certificate ends early")
	}
	for _, each := range []string{text, own} {
		harness.Promtool(t, each, "check", "metrics")
	}
}
