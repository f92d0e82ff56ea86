package servertest

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// Members returns the configurations of members that run on this machine, each with a certificate
// of the common name "member". Clients need one of the common name "controller".
func Members(t testing.TB, authority *Authority, names ...string) []server.Config {
	t.Helper()
	peers := map[string]string{}
	for _, name := range names {
		peers[name] = "https://" + freeAddress(t)
	}
	tls := authority.Issue(t, "member")
	tls.Names = []string{"member", "controller"}
	var configs []server.Config
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		configs = append(configs, server.Config{
			Cluster: "three", Name: name, DataDir: filepath.Join(Dir(t), "data"),
			Members: &server.Members{PeerURLs: peers, ClientURL: "https://" + freeAddress(t), TLS: tls},
		})
	}
	return configs
}

// freeAddress returns an address on which nothing listens now.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
