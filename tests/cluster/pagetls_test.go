package cluster

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// trustPolicy is where Chromium finds what an administrator has decided, CAs among it.
const trustPolicy = "/etc/chromium/policies/managed/phos.json"

// trusted returns the CAs that the agent of a host trusts. The first one issues certificates.
func (s *site) trusted(h *hosts.Host) (all []*x509.Certificate) {
	s.Helper()
	text, err := os.ReadFile(h.DiskPath("/var/lib/phos-agent/membership.json"))
	if err != nil {
		s.Fatal(err)
	}
	var kept struct{ Bundle string }
	if err := json.Unmarshal(text, &kept); err != nil {
		s.Fatal(err)
	}
	for block, rest := pem.Decode([]byte(kept.Bundle)); block != nil; block, rest = pem.Decode(rest) {
		each, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, each)
	}
	return all
}

// trust lets browsers on a host trust the CA of the cluster. The agent of the host has it.
func (s *site) trust(host int) {
	s.Helper()
	ca := s.trusted(s.hosts[host])[0].Raw
	s.write(s.hosts[host], trustPolicy, fmt.Sprintf(`{"CACertificates": [%q]}`, base64.StdEncoding.EncodeToString(ca)))
}

// TestPageOverTLS: a browser on another machine that trusts the CA of the cluster gets the page by
// TLS, and a token logs in there. A browser that does not trust it gets nothing.
func TestPageOverTLS(t *testing.T) {
	harness.Need(t, "chromium", programOf())
	s := newSiteWith(t, shape{hosts: 2, controllers: 1, gpus: 1}, settings+"[web]\nlisten = \":7412\"\n")
	token, _ := s.invite("add", "ada", "--role", "admin")
	id := s.launch(shell("exec sleep 1000", 1, 1))
	s.awaitRunning(id)
	page := "https://" + netip.AddrPortFrom(s.hosts[0].Address, 7412).String() + "/"

	const refused = "net::ERR_CERT_AUTHORITY_INVALID"
	if got := browserOn(t, s.hosts[1]).Open(1280, 860).Try(page); got != refused {
		t.Errorf("without the CA: %q, want %q", got, refused)
	}

	s.trust(1)
	tab := browserOn(t, s.hosts[1]).Open(1280, 860)
	tab.Go(page)
	tab.Await("nothing is shown yet", "document.querySelector('main')?.innerText.includes('does not know you yet')")
	tab.Eval("document.querySelector('#caller').click()", nil)
	tab.Await("the page asks for a token", "document.querySelector('dialog #token')")
	tab.Eval(fmt.Sprintf("document.querySelector('dialog #token').value = %q; document.querySelector('dialog .primary').click()", token), nil)
	tab.Await("the launch is shown", "document.querySelectorAll('.launches tbody tr').length === 1")
	tab.Go(page + "#/launch/" + id)
	tab.Await("it can be stopped", "document.querySelector('.danger') && !document.querySelector('.danger').disabled")
	tab.Eval("document.querySelector('.danger').click()", nil)
	tab.Await("it asks", "document.querySelector('dialog .primary')")
	tab.Eval("document.querySelector('dialog .primary').click()", nil)
	s.await(id, "ended")
	tab.Quiet("401")
}
