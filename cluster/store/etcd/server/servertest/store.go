package servertest

import (
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// Store returns a store over a new etcd in this process. Both end with the test.
func Store(t testing.TB) store.Store {
	t.Helper()
	config := Config(t)
	running, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Close() })
	objects, err := etcd.Open(etcd.Config{Endpoints: []string{"unix://" + filepath.Join(config.DataDir, server.SocketName)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	return objects
}
