package channel

import (
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestOpenSSLConnects lets another implementation of TLS connect: as a browser would, by the
// address.
func TestOpenSSLConnects(t *testing.T) {
	path, err := exec.LookPath("openssl")
	harness.Need(t, "openssl", err)
	ca := newCA(t, cluster)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "ca.pem"), bundle(t, ca).PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := node(t, ca, "gpu1")
	pair := authority.Pair{Certificate: shown.Leaf, CA: ca.Certificate(), Key: keyOf(t, shown)}
	if err := authority.SavePair(filepath.Join(folder, "node.pem"), pair); err != nil {
		t.Fatal(err)
	}
	listener := must(tls.Listen("tcp", "127.0.0.1:0", Server(NewHolder(controller(t, ca), bundle(t, ca)), at(now))))(t)
	defer listener.Close()
	go serve(listener)
	for flags, says := range map[string]string{
		"-CAfile ca.pem -verify_hostname localhost":                                 "Verify return code: 0 (ok)",
		"-CAfile ca.pem -verify_hostname controller.abcdefghijkl2345.phos.internal": "Verify return code: 0 (ok)",
		"-CAfile ca.pem -verify_hostname example.org":                               "hostname mismatch",
		"-CAfile ca.pem -tls1_2":                                                    "alert protocol version",
		"-CAfile ca.pem -alpn h2":                                                   "ALPN protocol: h2",
		"-CAfile ca.pem -cert node.pem -key node.pem":                               "CA names\nO = abcdefghijkl2345",
	} {
		command := exec.Command(path, append([]string{
			"s_client", "-connect", listener.Addr().String(), "-attime", strconv.FormatInt(now.Unix(), 10),
		}, strings.Fields(flags)...)...)
		command.Dir = folder
		out, _ := command.CombinedOutput() // its status says nothing of the certificate
		if text := strings.ReplaceAll(string(out), "O=abc", "O = abc"); !strings.Contains(text, says) {
			t.Errorf("openssl %s: no %q in\n%s", flags, says, text)
		}
	}
}

// serve makes handshakes until the listener is closed.
func serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { _ = exchange(conn.(*tls.Conn)); _ = conn.Close() }()
	}
}
