package server

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/store"
)

const (
	// compactAfter is for how long the history of changes is kept. Watches resume within it.
	compactAfter = time.Hour
	// defragFreeMegabytes is how much a start must give back to the disk to be worth its time.
	defragFreeMegabytes = 100
	// pingTime is how often clients may ping.
	pingTime = time.Second
	// aloneURL is where an etcd without peers would be reached: it listens nowhere.
	aloneURL = "http://localhost:2380"
	// aloneTickMs and aloneElectionMs are etcd's beat and the time without a leader after which a
	// member that is alone elects itself. It hears from nobody, so it need not wait for as long as
	// etcd's defaults say, up to a second.
	aloneTickMs, aloneElectionMs = 20, 100
)

// embedded is the configuration of etcd, but for its logger.
func (c Config) embedded(streams grpc.StreamServerInterceptor) (*embed.Config, error) {
	e := embed.NewConfig()
	e.Name, e.Dir, e.InitialClusterToken = c.Name, c.DataDir, c.Cluster
	e.AutoCompactionMode, e.AutoCompactionRetention = embed.CompactorModePeriodic, compactAfter.String()
	e.QuotaBackendBytes, e.BootstrapDefragThresholdMegabytes = c.QuotaBytes, defragFreeMegabytes
	e.MaxRequestBytes = store.MaxValue + 64<<10
	e.GRPCKeepAliveMinTime = pingTime
	e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(streams)}
	e.EnableGRPCGateway = false
	// HTTP beside gRPC on one port would make watches starve.
	e.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Path: c.DataDir + "/" + httpName}}
	e.ListenClientUrls, e.AdvertiseClientUrls = nil, nil
	e.ListenPeerUrls, e.AdvertisePeerUrls = nil, nil
	if c.Socket != "" {
		socket := url.URL{Scheme: "unix", Path: c.Socket}
		e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{socket}, []url.URL{socket}
	}
	if c.Members == nil {
		return e, c.alone(e)
	}
	return e, c.Members.configure(c.Name, e)
}

// alone configures an etcd that has no peers, and listens for none.
func (c Config) alone(e *embed.Config) error {
	peer, err := url.Parse(aloneURL)
	if err != nil {
		return err
	}
	e.AdvertisePeerUrls = []url.URL{*peer}
	e.InitialCluster = c.initialCluster()
	e.TickMs, e.ElectionMs = aloneTickMs, aloneElectionMs
	return nil
}

// initialCluster is the list of members in etcd's syntax.
func (c Config) initialCluster() string {
	if c.Members == nil {
		return c.Name + "=" + aloneURL
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(c.Members.PeerURLs)) {
		members = append(members, name+"="+c.Members.PeerURLs[name])
	}
	return strings.Join(members, ",")
}

// configure configures a member of several.
func (m *Members) configure(name string, e *embed.Config) error {
	peer, listenPeer, err := addresses(m.PeerURLs[name], m.ListenPeer)
	if err != nil {
		return err
	}
	e.AdvertisePeerUrls, e.ListenPeerUrls = []url.URL{peer}, []url.URL{listenPeer}
	if m.ClientURL != "" {
		client, listenClient, err := addresses(m.ClientURL, m.ListenClient)
		if err != nil {
			return err
		}
		e.AdvertiseClientUrls = []url.URL{client} // not the socket, which other machines do not have
		e.ListenClientUrls = append(e.ListenClientUrls, listenClient)
	}
	e.InitialCluster = Config{Members: m}.initialCluster()
	if m.Join {
		e.ClusterState = embed.ClusterStateFlagExisting
	}
	e.PeerTLSInfo, e.ClientTLSInfo = m.TLS.info(), m.TLS.info()
	e.TlsMinVersion = "TLS1.3"
	return nil
}

// addresses returns the URL that others use, and the one to listen at.
func addresses(advertised, listen string) (public, local url.URL, err error) {
	parsed, err := url.Parse(advertised)
	if err != nil {
		return url.URL{}, url.URL{}, fmt.Errorf("address of a member: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Port() == "" || parsed.Path != "" {
		return url.URL{}, url.URL{}, fmt.Errorf("address of a member: %.80q is not https://HOST:PORT", advertised)
	}
	if listen == "" {
		listen = parsed.Host
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil || net.ParseIP(host) == nil {
		return url.URL{}, url.URL{}, fmt.Errorf("address to listen at: %.80q is not IP:PORT", listen)
	}
	return *parsed, url.URL{Scheme: "https", Host: listen}, nil
}

// info asks each peer and each client for a certificate.
func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA, ClientCertAuth: true, AllowedCNs: t.Names,
	}
}
