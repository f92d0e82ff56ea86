package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// dialTime is how long a peer that runs may take to accept a connection.
const dialTime = 3 * time.Second

// replace lets another controller, whose disk is lost, come back with an empty one.
func replace(ctx context.Context, c config, name string) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	own, err := c.name()
	if err != nil {
		return err
	}
	if err := c.Store.check(own); err != nil {
		return err
	}
	m := c.Store.members()
	switch {
	case m == nil:
		return errors.New("this controller has no peers (store.peers): one that is alone comes back by --restore")
	case m.PeerURLs[name] == "":
		return fmt.Errorf("store.peers does not have %.80q", name)
	case name == own:
		return fmt.Errorf("%s is this controller: run this where another one runs, and --join here", name)
	}
	if err := c.Store.isSilent(m.PeerURLs[name]); err != nil {
		return fmt.Errorf("controller %s is not replaced: %w", name, err)
	}
	client, err := c.reached()
	if err != nil {
		return err
	}
	objects, err := etcd.Open(client)
	if err != nil {
		return err
	}
	defer objects.Close()
	if err := objects.ReplaceMember(ctx, name, m.PeerURLs[name]); err != nil {
		return fmt.Errorf("replace controller %s: %w", name, err)
	}
	_, err = fmt.Printf("the others expect %s with an empty disk; on its machine, with the same configuration and the\n"+
		"certificates of %s in %s: phos-controller --join, then start it\n", name, name, defaultStore.Certificates)
	return err
}

// isSilent returns an error if an etcd answers at a peer's address: it would lose what it has.
func (c *storeConfig) isSilent(peerURL string) error {
	at, err := url.Parse(peerURL)
	if err != nil {
		return err
	}
	show, err := c.tls()
	if err != nil {
		return err
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: dialTime}, "tcp", at.Host, show)
	if err != nil {
		return nil // nothing is there, or nothing that is a peer
	}
	_ = conn.Close() // nothing was sent
	return fmt.Errorf("its store answers at %s; stop it first", at.Host)
}

// join makes an empty store with which this controller joins the others again.
func join(c config) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	name, err := c.name()
	if err != nil {
		return err
	}
	if err := c.Store.check(name); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Controller.StateDir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := server.Join(c.ownStore(name)); err != nil {
		return err
	}
	_, err = fmt.Printf("%s joins the others with an empty store; start the controller now\n", name)
	return err
}
