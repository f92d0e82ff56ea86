package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/internal/scrape/endpoint"
)

// DefaultConfig is where the configuration is read from.
const DefaultConfig = "/etc/phos/controller.toml"

// config is the configuration file.
type config struct {
	Controller struct {
		Name     string   `toml:"name" comment:"of this controller among several; the host's name if it is empty"`
		StateDir string   `toml:"state_dir" comment:"what this controller keeps"`
		Listen   string   `toml:"listen" comment:"where nodes and people reach it, with TLS"`
		Socket   string   `toml:"socket" comment:"for people on this machine"`
		Names    []string `toml:"names" comment:"names and addresses in its certificate, beside those of this machine"`
		Lease    Duration `toml:"lease" comment:"without a renewal for so long, another controller leads"`
		Ports    string   `toml:"ports" comment:"the TCP ports that launches get on nodes"`
	} `toml:"controller"`
	Store storeConfig `toml:"store"`
	Web   struct {
		Listen string `toml:"listen" comment:"where browsers find the page: loopback, or with TLS and tokens; empty: none"`
	} `toml:"web"`
	Nodes struct {
		Lease      Duration `toml:"lease" comment:"without a renewal for so long, a node gets nothing new"`
		FenceAfter Duration `toml:"fence_after" comment:"and after so long, what it runs is stopped there and started elsewhere"`
		Grace      Duration `toml:"grace" comment:"between SIGTERM and SIGKILL"`
		// Certificate is seconds in tests.
		Certificate Duration `toml:"certificate" comment:"how long the certificate of a node is valid; its agent renews it"`
	} `toml:"nodes"`
	Launches struct {
		Keep     Duration `toml:"keep" comment:"how long launches that have ended are listed"`
		KeepMost int      `toml:"keep_most" comment:"how many of those there are at most; the oldest are forgotten first"`
	} `toml:"launches"`
	Images struct {
		Keep string `toml:"keep" comment:"where images without checkpoint.dir are: node, or peers:N, on N other nodes, too"`
	} `toml:"images"`
	Network struct {
		Addresses string `toml:"addresses" comment:"those of replicas of launches with networks of their own; /24 for each launch"`
	} `toml:"network"`
	Metrics struct {
		Listen string `toml:"listen" comment:"unix:/path or a loopback host:port for Prometheus; empty: none"`
	} `toml:"metrics"`
	Clusterfudge struct {
		Listen string `toml:"listen" comment:"a loopback address for the client of Clusterfudge; empty: none"`
	} `toml:"clusterfudge"`
	Scheduler schedulerConfig `toml:"scheduler"`
}

// Duration is a time as text.
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed <= 0 {
		err = errors.New("want a time above 0, as 5s or 1m")
	}
	*d = Duration(parsed)
	return err
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 {
		return nil, fmt.Errorf("%v is no time of a setting", time.Duration(d))
	}
	return []byte(time.Duration(d).String()), nil
}

// defaults returns the configuration of a controller that is told nothing.
func defaults() config {
	var c config
	c.Controller.StateDir = "/var/lib/phos-controller"
	c.Store = defaultStore
	c.Controller.Listen = ":7411"
	c.Controller.Socket = "/run/phos/controller.sock"
	c.Controller.Lease = Duration(etcd.DefaultLease)
	c.Controller.Ports = "20000-29999"
	c.Web.Listen = "127.0.0.1:7412"
	c.Nodes.Lease = Duration(control.DefaultTimes.Lease)
	c.Nodes.FenceAfter = Duration(control.DefaultTimes.FenceAfter)
	c.Nodes.Grace = Duration(control.DefaultTimes.Grace)
	c.Nodes.Certificate = Duration(authority.NodeLife)
	c.Metrics.Listen = "127.0.0.1:9411"
	c.Launches.Keep, c.Launches.KeepMost = Duration(7*24*time.Hour), control.DefaultKeepMost
	c.Images.Keep = keepOnNode
	c.Network.Addresses = control.DefaultNetworks.String()
	c.Clusterfudge.Listen = "127.0.0.1:7413"
	c.Scheduler = defaultScheduler
	return c
}

// readConfig reads a file over the defaults. The default file may be missing.
func readConfig(path string) (config, error) {
	c := defaults()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && path == DefaultConfig {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	decoder := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) && len(strict.Errors) > 0 {
			row, _ := strict.Errors[0].Position()
			return c, fmt.Errorf("%s: line %d: there is no key %s", path, row, strings.Join(strict.Errors[0].Key(), "."))
		}
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// keepOnNode is the value of images.keep for no copies, maxPeers the most that there may be.
const (
	keepOnNode = "node"
	maxPeers   = 16
)

// peersOf reads images.keep.
func peersOf(keep string) (peers int, err error) {
	if keep == keepOnNode {
		return 0, nil
	}
	number, found := strings.CutPrefix(keep, "peers:")
	peers, err = strconv.Atoi(number)
	if !found || err != nil || peers < 1 || peers > maxPeers {
		return 0, fmt.Errorf("images.keep is %q: want %s, or peers:N with N from 1 to %d", keep, keepOnNode, maxPeers)
	}
	return peers, nil
}

// settings returns what package control is configured with.
func (c *config) settings(version string) (control.Settings, error) {
	s := control.Settings{
		Times: control.Times{
			Lease: time.Duration(c.Nodes.Lease), FenceAfter: time.Duration(c.Nodes.FenceAfter),
			Grace: time.Duration(c.Nodes.Grace), Margin: control.DefaultTimes.Margin,
		},
		Policies: c.Scheduler.policies, Placement: c.Scheduler.Placement, Scheduler: c.Scheduler.text(),
		KeepEnded: time.Duration(c.Launches.Keep), KeepMost: c.Launches.KeepMost, Version: version,
	}
	if _, err := fmt.Sscanf(c.Controller.Ports, "%d-%d", &s.Ports.From, &s.Ports.To); err != nil {
		return s, fmt.Errorf("controller.ports is %q: want a range as 20000-29999", c.Controller.Ports)
	}
	var err error
	if s.Peers, err = peersOf(c.Images.Keep); err != nil {
		return s, err
	}
	if s.Networks, err = netip.ParsePrefix(c.Network.Addresses); err != nil {
		return s, fmt.Errorf("network.addresses is %q: want a range as %s", c.Network.Addresses, control.DefaultNetworks)
	}
	if c.Controller.Lease >= c.Nodes.FenceAfter {
		return s, fmt.Errorf("controller.lease is %v; it must be shorter than nodes.fence_after of %v, or launches stop when a "+
			"controller does", time.Duration(c.Controller.Lease), time.Duration(c.Nodes.FenceAfter))
	}
	if err := endpoint.Check(c.Metrics.Listen); err != nil {
		return s, fmt.Errorf("metrics.listen is %q: %w", c.Metrics.Listen, err)
	}
	if c.Nodes.Certificate < 5*Duration(time.Second) {
		return s, fmt.Errorf("nodes.certificate is %v; it must be at least 5s", time.Duration(c.Nodes.Certificate))
	}
	if _, err := s.Policies(); err != nil {
		return s, err
	}
	return s, s.Check()
}
