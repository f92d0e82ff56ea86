package servertest

import (
	"maps"
	"math/rand/v2"
	"net/netip"
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
		peers[name] = "https://" + authority.listenAddress()
	}
	tls := authority.Issue(t, "member")
	tls.Names = []string{"member", "controller"}
	var configs []server.Config
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		configs = append(configs, server.Config{
			Cluster: "three", Name: name, DataDir: filepath.Join(Dir(t), "data"),
			Members: &server.Members{PeerURLs: peers, ClientURL: "https://" + authority.listenAddress(), TLS: tls},
		})
	}
	return configs
}

// firstPort is below the ports that the kernel gives to connections, of which one could take the
// port of a member that is about to start.
const firstPort = 23790

// loopback returns an address of this machine at random, of 16 million.
func loopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

// listenAddress returns an address on which nothing has listened.
func (a *Authority) listenAddress() string {
	return netip.AddrPortFrom(a.address, uint16(firstPort+a.ports.Add(1))).String()
}
