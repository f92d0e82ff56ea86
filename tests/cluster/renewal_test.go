package cluster

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// shown returns the certificate that the agent of a host keeps.
func (s *site) shown(h *hosts.Host) *x509.Certificate {
	s.Helper()
	text, err := os.ReadFile(h.DiskPath("/var/lib/phos-agent/membership.json"))
	if err != nil {
		s.Fatal(err)
	}
	var kept struct{ Certificate string }
	if err := json.Unmarshal(text, &kept); err != nil {
		s.Fatal(err)
	}
	block, _ := pem.Decode([]byte(kept.Certificate))
	if block == nil {
		s.Fatalf("no certificate in %s", text)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.Fatal(err)
	}
	return certificate
}

// TestRenewal: an agent renews the certificate of its node before it ends. An agent that is started
// after the end of the first one still belongs to the cluster, and so does what it runs.
func TestRenewal(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 1, controllers: 1, gpus: 1}, settings+"certificate = \"5s\"\n")
	id := s.launch(shell("sleep 1000", 1, 1))
	s.awaitRunning(id)
	first := s.shown(s.hosts[0])
	if life := first.NotAfter.Sub(first.NotBefore); life > 10*time.Second {
		t.Fatalf("the first certificate is valid for %v", life)
	}
	harness.Eventually(t, "the certificate outlives the first one's successor", func() bool {
		return s.shown(s.hosts[0]).NotBefore.After(first.NotAfter)
	})
	s.agents[0].Kill()
	s.agents[0].Start()
	s.awaitNodes(1)
	if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
		t.Errorf("it runs in attempt %d", got.GetAttempt())
	}
	s.stop(id)
}
