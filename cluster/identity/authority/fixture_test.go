package authority

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/tests/harness"
)

const (
	cluster identity.ClusterID = "abcdefghijkl2345"
	foreign identity.ClusterID = "zzzzzzzzzzzz2345"
)

// now is when the certificates of these tests are issued.
var now = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// must returns the value, or fails the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// newCA makes a CA of a cluster.
func newCA(t testing.TB, of identity.ClusterID) *Authority { return must(Create(of, now))(t) }

// nodeOf is the subject of a node.
func nodeOf(of identity.ClusterID, name string) identity.Subject {
	return identity.Subject{Cluster: of, Kind: identity.Node, Name: name}
}

// newNode issues the certificate of a node.
func newNode(t testing.TB, ca *Authority, name string) Pair {
	t.Helper()
	key := must(NewKey())(t)
	request := must(NewRequest(nodeOf(ca.cluster, name), key))(t)
	return Pair{must(ca.IssueNode(request, name, now, NodeLife))(t), ca.certificate, key}
}

// newController issues the certificate of a controller.
func newController(t testing.TB, ca *Authority, name string) Pair {
	t.Helper()
	key := must(NewKey())(t)
	names := Names{DNS: []string{"c1.example.org"}, IPs: []net.IP{net.IPv4(192, 0, 2, 7), net.ParseIP("2001:db8::1")}}
	return Pair{must(ca.IssueController(name, names, &key.PublicKey, now))(t), ca.certificate, key}
}

// shown is what a peer shows.
func (p Pair) shown() []*x509.Certificate { return []*x509.Certificate{p.Certificate, p.CA} }

// newBundle trusts one CA.
func newBundle(t testing.TB, ca *Authority) Bundle { return must(NewBundle(ca.certificate))(t) }

// openssl runs the program openssl in a folder, and returns what it prints.
func openssl(t *testing.T, folder string, arguments ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("openssl")
	harness.Need(t, "openssl", err)
	command := exec.Command(path, arguments...)
	command.Dir = folder
	out, err := command.CombinedOutput()
	return string(out), err
}

// file writes a certificate in PEM into a folder.
func file(t *testing.T, folder, name string, certificates ...*x509.Certificate) {
	t.Helper()
	var text []byte
	for _, each := range certificates {
		text = append(text, encodeCertificate(each)...)
	}
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// keyFile writes a key in PEM into a folder.
func keyFile(t *testing.T, folder, name string, key *ecdsa.PrivateKey) {
	t.Helper()
	text := must(encodeKey(key))(t)
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// derOf reads a file in PEM.
func derOf(t *testing.T, path string) []byte {
	t.Helper()
	block, _ := pem.Decode(must(os.ReadFile(path))(t))
	if block == nil {
		t.Fatalf("%s is not in PEM", path)
	}
	return block.Bytes
}
