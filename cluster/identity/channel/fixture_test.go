package channel

import (
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
)

const (
	cluster identity.ClusterID = "abcdefghijkl2345"
	foreign identity.ClusterID = "zzzzzzzzzzzz2345"
)

var now = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a clock that stands still.
func at(t time.Time) Clock { return func() time.Time { return t } }

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

// bundle trusts some CAs.
func bundle(t testing.TB, cas ...*authority.Authority) authority.Bundle {
	t.Helper()
	b := must(authority.NewBundle(cas[0].Certificate()))(t)
	for _, each := range cas[1:] {
		b = must(authority.ParseBundle(append(b.PEM(), must(authority.NewBundle(each.Certificate()))(t).PEM()...)))(t)
	}
	return b
}

// newCA makes a CA.
func newCA(t testing.TB, of identity.ClusterID) *authority.Authority {
	return must(authority.Create(of, now))(t)
}

// node returns what a node shows.
func node(t testing.TB, ca *authority.Authority, name string) *tls.Certificate {
	t.Helper()
	key := must(authority.NewKey())(t)
	s := identity.Subject{Cluster: ca.Cluster(), Kind: identity.Node, Name: name}
	request := must(authority.NewRequest(s, key))(t)
	certificate := must(ca.IssueNode(request, name, now, authority.NodeLife))(t)
	return authority.Pair{Certificate: certificate, CA: ca.Certificate(), Key: key}.TLS()
}

// controller returns what a controller shows.
func controller(t testing.TB, ca *authority.Authority) *tls.Certificate {
	t.Helper()
	key := must(authority.NewKey())(t)
	names := authority.Names{DNS: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	issued := must(ca.IssueController("c1", names, &key.PublicKey, now))(t)
	return authority.Pair{Certificate: issued, CA: ca.Certificate(), Key: key}.TLS()
}

// result is what became of a handshake.
type result struct {
	client, server error
	// caller and unknown are what the server knows of the client.
	caller  identity.Caller
	unknown error
}

// handshake connects a client to a server, and sends a byte each way: in TLS 1.3 a client learns
// only from the first answer that it was refused.
func handshake(t *testing.T, server, client *tls.Config) (got result) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := listener.Accept()
		if err != nil {
			got.server = err
			return
		}
		conn := tls.Server(raw, server)
		defer conn.Close()
		if got.server = exchange(conn); got.server == nil {
			got.caller, got.unknown = OfConnection(cluster, conn.ConnectionState())
		}
	}()
	raw := must(net.Dial("tcp", listener.Addr().String()))(t)
	conn := tls.Client(raw, client)
	got.client = exchange(conn)
	_ = conn.Close()
	<-done
	return got
}

// exchange sends a byte and receives one.
func exchange(conn *tls.Conn) error {
	if err := conn.Handshake(); err != nil {
		return err
	}
	_, err1 := conn.Write([]byte{1})
	_, err2 := io.ReadFull(conn, make([]byte, 1))
	return errors.Join(err1, err2)
}

// keyOf returns the key of what a member shows.
func keyOf(t testing.TB, shown *tls.Certificate) *ecdsa.PrivateKey {
	t.Helper()
	key, ok := shown.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("no key of ECDSA")
	}
	return key
}
