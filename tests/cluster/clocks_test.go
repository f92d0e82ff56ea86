package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/hosts"
)

// TestWrongClocks: the wall clocks of three hosts with controllers differ by minutes, and are set
// while launches run. Agents and controllers that start then believe each other's certificates, a
// launch does not notice, also when the next controller's clock is behind, and a host can join.
func TestWrongClocks(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 3, controllers: 3, gpus: 1, programs: otherBuild(t)}, settings)
	dir := s.share("ticks")
	id := s.launch(ticking(dir))
	s.awaitRunning(id)
	for round, minutes := range [][]time.Duration{{10, 0, -10}, {-10, 10, 0}, {0, -10, 10}} {
		for i, ahead := range minutes {
			s.hosts[i].SetClocks(hosts.Clocks{Wall: ahead * time.Minute})
		}
		leader := s.leader()
		s.controllers[leader].Kill()
		s.leader()
		s.controllers[leader].Start()
		for _, agent := range s.agents {
			agent.Kill()
			agent.Start()
		}
		s.awaitNodes(3)
		if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
			t.Fatalf("with clocks that are ahead by %v minutes it is in attempt %d", minutes, got.GetAttempt())
		}
		for i, h := range s.hosts {
			token := sure(s, s.cluster.NewJoinToken, &api.NewJoinTokenRequest{})
			state := fmt.Sprintf("/tmp/node-%d-%d", round, i)
			h.Run(h.Binary("phos-agent"), "join", "--state-dir", state, "--name", fmt.Sprintf("extra-%d-%d", round, i), token.GetToken())
		}
		if got := s.await(s.launch(shell("true", 3, 0)), "ended"); got.GetResult() != "completed" {
			t.Errorf("a launch is %s: %s", got.GetResult(), got.GetReason())
		}
	}
	s.awaitTicks(dir)
	if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
		t.Errorf("it is in attempt %d", got.GetAttempt())
	}
	s.stop(id)
}
