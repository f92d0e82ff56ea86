package servertest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// Store returns a store over a new etcd in this process. Both end with the test. No leadership ends
// by itself, and no request fails, because the machine is slow.
func Store(t testing.TB) store.Store {
	t.Helper()
	config := Config(t)
	running, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Close() })
	objects, err := etcd.Open(etcd.Config{
		Endpoints: []string{"unix://" + filepath.Join(config.DataDir, server.SocketName)},
		Lease:     time.Hour, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	return objects
}
