package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// silent is a store that does not answer some writes.
type silent struct {
	store.Store
	left int
}

func (s *silent) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	if s.left > 0 {
		s.left--
		return 0, store.ErrUnavailable
	}
	return s.Store.Put(ctx, w)
}

// TestWaitsForPeers: a controller waits while its peers choose a leader of the store. One without
// peers says at once that its store does not answer.
func TestWaitsForPeers(t *testing.T) {
	objects := &silent{Store: servertest.Store(t), left: 1}
	k := &controller{name: "a", address: "10.0.0.1:7411", objects: objects, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if _, err := k.openMembers(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("without peers: %v", err)
	}
	k.config.Store.Peers = map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
	objects.left = 2
	opened, err := k.openMembers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Get(t.Context(), record.ControllerKey("a")); err != nil || opened.Cluster() == "" {
		t.Errorf("cluster %q: %v", opened.Cluster(), err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	objects.left = 1
	if _, err := k.openMembers(over); err == nil {
		t.Error("it goes on after its end")
	}
}
