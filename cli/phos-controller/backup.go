package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// reached is how a client that is no controller reaches the store.
func (c *config) reached() (client etcd.Config, err error) {
	client = etcd.Config{Endpoints: c.Store.Endpoints}
	if len(c.Store.Endpoints) > 0 {
		client.TLS, err = c.Store.tls()
		return client, err
	}
	client.Endpoints = []string{"unix://" + filepath.Join(c.ownStore("").DataDir, server.SocketName)}
	return client, nil
}

// errNotRoot is returned to other users: the store has the key of the CA.
var errNotRoot = errors.New("only root may do this: the store has the keys of the cluster")

// backUp saves the store of the controller that runs here. The file is there when it is whole and
// on the disk, or not at all. Only root can read it.
func backUp(ctx context.Context, c config, path string) error {
	if os.Geteuid() != 0 {
		return errNotRoot
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
	bytes, err := writeWhole(path, func(to io.Writer) error { return objects.Snapshot(ctx, to) })
	if errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("%w; a controller must run here", err)
	}
	if err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	_, err = fmt.Printf("saved %d bytes to %s; it has the keys of the cluster\n", bytes, path)
	return err
}

// writeWhole writes a file beside its place and renames it.
func writeWhole(path string, fill func(io.Writer) error) (bytes int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part") // of mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := errors.Join(fill(file), file.Sync()); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return 0, err
	}
	return info.Size(), dirsync.Sync(filepath.Dir(path))
}

// restore makes the store of this controller from a backup. None may be there. Of several
// controllers each restores the same backup.
func restore(c config, path string) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	if err := os.MkdirAll(c.Controller.StateDir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if len(c.Store.Endpoints) > 0 {
		return errors.New("the etcd of store.endpoints is restored where it runs, by its own tools")
	}
	name, err := c.name()
	if err != nil {
		return err
	}
	if err := server.Restore(path, c.ownStore(name)); err != nil {
		return err
	}
	_, err = fmt.Printf("restored %s into %s; start the controller now\n", path, c.Controller.StateDir)
	return err
}
