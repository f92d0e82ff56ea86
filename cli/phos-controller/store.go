package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/peers"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// storeConfig says where the cluster's objects are kept. One controller keeps them alone, in an
// etcd of its own. Three or five name each other as peers. Others use an etcd that runs elsewhere.
type storeConfig struct {
	Peers        map[string]string `toml:"peers" comment:"names and IP addresses of all controllers, this one too; none: it is alone"`
	PeerPort     int               `toml:"peer_port" comment:"where the etcds of peers reach each other"`
	Endpoints    []string          `toml:"endpoints" comment:"of an etcd that runs elsewhere, as https://HOST:PORT"`
	QuotaMiB     int               `toml:"quota_mib" comment:"how large the database of the controller's own etcd may become"`
	Certificates string            `toml:"certificates" comment:"folder with ca.crt, member.crt and member.key, for peers or endpoints"`
}

// defaultStore is the store of a controller that is told nothing.
var defaultStore = storeConfig{PeerPort: 7414, QuotaMiB: server.DefaultQuotaBytes >> 20, Certificates: "/etc/phos/store"}

// leastQuotaMiB holds a small cluster.
const leastQuotaMiB = 8

// check returns what is wrong with the configuration, for the controller of a name.
func (c *storeConfig) check(name string) error {
	if len(c.Peers) > 0 && len(c.Endpoints) > 0 {
		return errors.New("store.peers and store.endpoints exclude each other: either the controllers run etcd, or others do")
	}
	if len(c.Peers) > 0 && c.Peers[name] == "" {
		return fmt.Errorf("store.peers does not have this controller: it is called %s (controller.name), and the peers are %s",
			name, strings.Join(slices.Sorted(maps.Keys(c.Peers)), ", "))
	}
	if len(c.Peers) == 2 {
		return errors.New("store.peers has 2 controllers: without either of them the other could not lead; want 3 or 5")
	}
	if c.QuotaMiB < leastQuotaMiB {
		return fmt.Errorf("store.quota_mib is %d: want at least %d", c.QuotaMiB, leastQuotaMiB)
	}
	for _, each := range c.Peers {
		if _, err := netip.ParseAddr(each); err != nil {
			return fmt.Errorf("store.peers has the address %.80q: want an IP address", each)
		}
	}
	return nil
}

// path returns a file of the certificates.
func (c *storeConfig) path(name string) string { return filepath.Join(c.Certificates, name) }

// members returns the etcds of the peers; nil: there are none.
func (c *storeConfig) members() *server.Members {
	if len(c.Peers) == 0 {
		return nil
	}
	m := &server.Members{PeerURLs: map[string]string{}, TLS: server.TLS{
		Cert: c.path(peers.CertFile), Key: c.path(peers.KeyFile), CA: c.path(peers.CAFile),
	}}
	for peer, address := range c.Peers {
		m.PeerURLs[peer] = "https://" + net.JoinHostPort(address, strconv.Itoa(c.PeerPort))
	}
	return m
}

// elsewhere is a store of another process. It does not fail: its client waits for it.
type elsewhere struct{}

func (elsewhere) Failed() <-chan struct{} { return nil }
func (elsewhere) Err() error              { return nil }
func (elsewhere) Close() error            { return nil }

// openStore connects to the store, and starts the etcd of this controller if it has one.
func (k *controller) openStore(ctx context.Context) (running failing, err error) {
	c := k.config.Store
	if err := c.check(k.name); err != nil {
		return nil, err
	}
	client := etcd.Config{Lease: time.Duration(k.config.Controller.Lease), Log: k.log, Endpoints: c.Endpoints}
	running = elsewhere{}
	if len(c.Endpoints) == 0 {
		if running, err = k.startStore(ctx, &client); err != nil {
			return nil, err
		}
	} else if client.TLS, err = c.tls(); err != nil {
		return nil, err
	}
	if k.objects, err = etcd.Open(client); err != nil {
		return nil, errors.Join(err, running.Close())
	}
	k.objects = k.numbers.Store(k.objects)
	return running, nil
}

// ownStore is what the etcd of a controller is started and restored with.
func (c *config) ownStore(name string) server.Config {
	return server.Config{
		Cluster: "phos", Name: name, DataDir: filepath.Join(c.Controller.StateDir, "etcd"), Members: c.Store.members(),
		QuotaBytes: int64(c.Store.QuotaMiB) << 20,
	}
}

// startStore starts the etcd of this controller, and lets the client find it.
func (k *controller) startStore(ctx context.Context, client *etcd.Config) (failing, error) {
	if err := os.MkdirAll(k.config.Controller.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if peers := len(k.config.Store.Peers); peers > 0 {
		k.log.Info("waiting for most of the peers", "peers", peers)
	}
	settings := k.config.ownStore(k.name)
	settings.Log = k.log
	running, err := server.Start(ctx, settings)
	if err != nil {
		return nil, err
	}
	k.full = running.Full
	client.Endpoints = []string{running.Endpoint()}
	return running, nil
}

// tls returns how the controller shows itself to an etcd that runs elsewhere.
func (c *storeConfig) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.path(peers.CertFile), c.path(peers.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("certificate for the store: %w", err)
	}
	roots, err := peers.Roots(c.path(peers.CAFile))
	if err != nil {
		return nil, fmt.Errorf("CA of the store: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}, nil
}
