package cluster

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
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

	s.replaceCA("prepare", "prepared")
	s.trustsCAs(2)
	if both := s.replaceCA("switch", "switched"); len(both) != 2 || both[1] != old {
		t.Errorf("%v are trusted, and %s was", both, old)
	}
	for _, h := range s.hosts {
		harness.Eventually(t, h.Name+" has a certificate of the next CA", func() bool {
			return s.shown(h).CheckSignatureFrom(s.trusted(h)[0]) == nil
		})
	}
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
