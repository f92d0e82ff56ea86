package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// replaceCA makes a step of replacing the CA, and returns the fingerprints of those trusted then.
func (s *site) replaceCA(step, becomes string) []string {
	s.Helper()
	reply, err := s.cluster.ReplaceCA(s.Context(), &api.ReplaceCARequest{Step: step})
	if err != nil || reply.GetStep() != becomes {
		s.Fatalf("%q: %v, %v; want it %s", step, reply, err, becomes)
	}
	return reply.GetTrusted()
}

// awaitFollowed waits until the leader knows that all nodes have followed the last step.
func (s *site) awaitFollowed() {
	s.Helper()
	harness.Eventually(s.T, "no node is behind", func() bool {
		reply, err := s.cluster.ReplaceCA(s.Context(), &api.ReplaceCARequest{})
		return err == nil && len(reply.GetBehind()) == 0
	})
}

// awaitBehind waits until one host, whose agent is away, is the only one that has not followed.
func (s *site) awaitBehind(h *hosts.Host) {
	s.Helper()
	harness.Eventually(s.T, h.Name+" alone is behind", func() bool {
		reply, err := s.cluster.ReplaceCA(s.Context(), &api.ReplaceCARequest{})
		return err == nil && slices.Equal(reply.GetBehind(), []string{h.Name})
	})
}

// refuseStep checks that a step is refused and a host named.
func (s *site) refuseStep(step string, h *hosts.Host) {
	s.Helper()
	_, err := s.cluster.ReplaceCA(s.Context(), &api.ReplaceCARequest{Step: step})
	if err == nil || !strings.Contains(err.Error(), ": "+h.Name+".") {
		s.Errorf("%s while %s is behind: %v", step, h.Name, err)
	}
}

// trustsCAs waits until the agents of all hosts keep a number of CAs.
func (s *site) trustsCAs(count int) {
	s.Helper()
	for _, h := range s.hosts {
		harness.Eventually(s.T, h.Name+" trusts the CAs", func() bool { return len(s.trusted(h)) == count })
	}
}

// TestReplaceCA: the CA is replaced while a launch runs. All nodes and controllers get certificates
// of the next one, a user that trusts the old one logs in again with the same token, and the old
// one is worth nothing in the end.
func TestReplaceCA(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteOf(t, 3, 3, 1)
	id := s.launch(shell("exec sleep 1000", 3, 1))
	s.awaitRunning(id)
	old := s.replaceCA("", "settled")[0]
	before := s.shown(s.hosts[2])
	token, login := s.invite("add", "ada")
	s.write(s.hosts[2], awayToken, token+"\n")
	if _, err := s.cluster.ReplaceCA(t.Context(), &api.ReplaceCARequest{Step: "finish"}); err == nil ||
		!strings.Contains(err.Error(), "not the next step") {
		t.Errorf("a step too early: %v", err)
	}

	s.agents[2].Kill()
	s.replaceCA("prepare", "prepared")
	s.awaitBehind(s.hosts[2])
	s.refuseStep("switch", s.hosts[2])
	s.agents[2].Start()
	s.trustsCAs(2)
	s.awaitFollowed()
	s.agents[2].Kill()
	if both := s.replaceCA("switch", "switched"); len(both) != 2 || both[1] != old {
		t.Errorf("%v are trusted, and %s was", both, old)
	}
	s.awaitBehind(s.hosts[2])
	s.refuseStep("finish", s.hosts[2])
	s.agents[2].Start()
	for _, h := range s.hosts {
		harness.Eventually(t, h.Name+" has a certificate of the next CA", func() bool {
			return s.shown(h).CheckSignatureFrom(s.trusted(h)[0]) == nil
		})
	}
	s.awaitFollowed()
	s.replaceCA("finish", "settled")
	s.trustsCAs(1)
	if before.CheckSignatureFrom(s.trusted(s.hosts[2])[0]) == nil {
		t.Error("the certificate of the beginning is still trusted")
	}

	if said := s.refuse(s.hosts[2], append(login, "--token-file", awayToken)...); !strings.Contains(said, "does not have the CA") {
		t.Errorf("with the old CA: %s", said)
	}
	_, again := s.invite("add", "bob")
	login[len(login)-1] = again[len(again)-1] // the fingerprint of the next CA
	s.accept(s.hosts[2], append(login, "--token-file", awayToken)...)

	s.agents[2].Kill()
	s.agents[2].Start()
	leader := s.leader()
	s.controllers[leader].Kill()
	s.controllers[leader].Start()
	s.awaitNodes(3)
	for i, r := range s.awaitRunning(id).GetReplicas() {
		if r.GetAttempt() != 1 {
			t.Errorf("replica %d is in attempt %d", i, r.GetAttempt())
		}
	}
}
