package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// saved is a snapshot of a store of some objects and a leader.
type saved struct {
	path    string
	objects []store.Object
	at      store.Revision
	epoch   store.Epoch
}

// takeSnapshot fills a store, saves it, and changes it after that.
func takeSnapshot(t *testing.T) (taken saved) {
	t.Helper()
	s, _ := inProcess(t, servertest.Config(t))
	client := open(t, etcd.Config{Endpoints: []string{s.Endpoint()}, Lease: 2 * time.Second})
	for i := range 20 {
		write := store.Write{Key: fmt.Sprintf("o/%d", i), Value: filler[:i*100]}
		if _, err := client.Put(t.Context(), write); err != nil {
			t.Fatal(err)
		}
	}
	leads, err := client.Campaign(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	taken.epoch = leads.Epoch()
	taken.objects, taken.at, err = client.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var snapshot bytes.Buffer
	if err := client.Snapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	taken.path = filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(taken.path, snapshot.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	first := taken.objects[0]
	lost := store.Write{Key: first.Key, Value: []byte("lost"), Replaces: first.Revision}
	if _, err := client.Put(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	return taken
}

func TestRestore(t *testing.T) {
	t.Parallel()
	taken := takeSnapshot(t)
	config := servertest.Config(t)
	if err := server.Restore(taken.path, config); err != nil {
		t.Fatal(err)
	}
	if err := server.Restore(taken.path, config); err == nil {
		t.Error("a snapshot was restored over another one")
	}
	if leftover, _ := os.ReadDir(config.DataDir); len(leftover) != 2 {
		t.Errorf("the data directory has %v", leftover)
	}
	_, client := inProcess(t, config)
	objects, _, err := client.List(t.Context(), "")
	if err != nil || fmt.Sprint(objects) != fmt.Sprint(taken.objects) {
		t.Errorf("%d objects, %v; want the %d of the snapshot", len(objects), err, len(taken.objects))
	}
	for _, after := range []store.Revision{0, taken.at - 1, taken.at, taken.at + 1} { // also what was lost
		err := client.Watch(t.Context(), "", after, func([]store.Change) error { return io.EOF })
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("a watch after %d, of a snapshot at %d: %v", after, taken.at, err)
		}
	}
	newWritesAreLater(t, client, taken)
}

// newWritesAreLater: no revision and no epoch is given out a second time.
func newWritesAreLater(t *testing.T, client *etcd.Store, taken saved) {
	t.Helper()
	first := taken.objects[0]
	revision, err := client.Put(t.Context(), store.Write{Key: first.Key, Replaces: first.Revision})
	if err != nil || revision < taken.at+1_000_000 {
		t.Errorf("the first write has revision %d, %v", revision, err)
	}
	leads, err := client.Campaign(t.Context(), "new") // when the lease of the old leader has ended
	if err != nil || leads.Epoch() <= taken.epoch+1_000_000 {
		t.Errorf("epoch %d after %d, %v", leads.Epoch(), taken.epoch, err)
	}
	_, err = client.Put(t.Context(), store.Write{Key: "a", Epoch: taken.epoch})
	if !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the leader of the snapshot writes: %v", err)
	}
}

// TestRestoreOfDamage changes a byte of each part of a snapshot, and cuts it off.
func TestRestoreOfDamage(t *testing.T) {
	t.Parallel()
	taken := takeSnapshot(t)
	whole, err := os.ReadFile(taken.path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{
		"empty": {}, "short": whole[:20], "cut": whole[:len(whole)-1], "half": whole[:len(whole)/2],
		"without a hash": whole[:len(whole)-32], "longer": append(bytes.Clone(whole), 0), "text": []byte("a text that is longer than a hash alone"),
	}
	for _, at := range []int{0, 20, len(whole) / 3, len(whole) - 33, len(whole) - 32, len(whole) - 1} {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		damaged[fmt.Sprintf("byte %d of %d", at, len(whole))] = changed
	}
	config := servertest.Config(t)
	path := filepath.Join(t.TempDir(), "damaged")
	for name, content := range damaged {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := server.Restore(path, config); !errors.Is(err, server.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(config.DataDir); err == nil {
		t.Error("a damaged snapshot has made a data directory")
	}
	if err := server.Restore(path+".none", config); err == nil {
		t.Error("a file that is not there was restored")
	}
}

// TestRestoreOfNoDatabase gives a text the right hash.
func TestRestoreOfNoDatabase(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, server.WithHash(bytes.Repeat([]byte("it is no databas"), 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	err := server.Restore(path, config)
	if err == nil || len(err.Error()) > 600 {
		t.Errorf("restored what is no database: %v", err)
	}
	t.Log(err)
	if leftover, _ := os.ReadDir(config.DataDir); len(leftover) != 0 {
		t.Errorf("it has left %v", leftover)
	}
}
