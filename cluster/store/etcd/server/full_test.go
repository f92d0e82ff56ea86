package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

// filler is a value of which few fill a small quota.
var filler = bytes.Repeat([]byte("filler"), 20_000)

// smallQuota starts a server that is full soon.
func smallQuota(t *testing.T) (*server.Server, *etcd.Store) {
	t.Helper()
	config := servertest.Config(t)
	config.QuotaBytes = 4 << 20
	return inProcess(t, config)
}

// TestFullOfHistory fills a store with old values of one object. It makes room by itself.
func TestFullOfHistory(t *testing.T) {
	t.Parallel()
	_, client := smallQuota(t)
	revision, full := store.New, false
	for n := 0; !full; n++ {
		next, err := client.Put(t.Context(), store.Write{Key: "a", Value: filler, Replaces: revision})
		switch {
		case err == nil:
			revision = next
		case errors.Is(err, store.ErrFull):
			full = true
		default:
			t.Fatal(err)
		}
		if n > 1000 {
			t.Fatal("the quota has no effect")
		}
	}
	object, err := client.Get(t.Context(), "a")
	if err != nil || object.Revision < revision || object.Revision > revision+1 { // the last write may have been done
		t.Errorf("a full store reads %d, %v; want %d", object.Revision, err, revision)
	}
	waitForRoom(t, client, store.Write{Key: "a", Value: filler, Replaces: object.Revision})
}

// waitForRoom writes until a store takes it.
func waitForRoom(t *testing.T, client *etcd.Store, write store.Write) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for {
		_, err := client.Put(ctx, write)
		if err == nil {
			return
		}
		if object, err := client.Get(ctx, write.Key); err == nil {
			write.Replaces = object.Revision
		}
		if !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestFullOfObjects fills a store with objects. Only a removal helps, which works while it is full.
func TestFullOfObjects(t *testing.T) {
	t.Parallel()
	s, client := smallQuota(t)
	if err := s.Reclaim(t.Context()); err != nil { // of a store that is not full
		t.Fatal(err)
	}
	leads, err := client.Campaign(t.Context(), "leader")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; !errors.Is(err, store.ErrFull); { // until nothing can be reclaimed either
		for err = nil; err == nil; n++ {
			_, err = client.Put(t.Context(), store.Write{Key: fmt.Sprintf("o/%d", n), Value: filler, Epoch: leads.Epoch()})
		}
		if !errors.Is(err, store.ErrFull) || n > 1000 {
			t.Fatal(n, err)
		}
		err = s.Reclaim(t.Context())
	}
	objects, _, err := client.List(t.Context(), "o/")
	if err != nil || len(objects) < 20 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	const fit = 10 // in the quota, which etcd exceeds by what comes between two commits
	for _, object := range objects[fit:] {
		remove := store.Write{Key: object.Key, Replaces: object.Revision, Epoch: leads.Epoch()}
		if err := client.Delete(t.Context(), remove); err != nil {
			t.Fatalf("remove an object of a full store: %v", err)
		}
	}
	waitForRoom(t, client, store.Write{Key: "more", Value: filler, Epoch: leads.Epoch()})
	kept := objects[fit-1]
	if got, err := client.Get(t.Context(), kept.Key); err != nil || got.Revision != kept.Revision || !bytes.Equal(got.Value, filler) {
		t.Errorf("%s has changed: revision %d, %v", kept.Key, got.Revision, err)
	}
}

// smallDisk mounts a file system of some size.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	dir := servertest.Dir(t)
	options := fmt.Sprintf("size=%dm,mode=0700", megabytes)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("no file system can be mounted here:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestStartOnFullDisk: the error says what is wrong, and the process of the controller lives.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	config.DataDir = filepath.Join(smallDisk(t, 10), "data") // a log alone has 64 MB
	refused(t, config, server.ErrDiskFull, config.DataDir)
}

// TestDiskFills: etcd ends when the disk is full, and says so. What it had acknowledged is there
// when there is space again.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 160) // two logs of 64 MB, one of them in advance
	config := servertest.Config(t)
	config.DataDir = filepath.Join(disk, "data")
	process := servertest.Start(t, config)
	patient := open(t, etcd.Config{Endpoints: []string{process.Endpoint()}, Timeout: harness.Patience})
	kept, err := patient.Put(t.Context(), store.Write{Key: "kept", Value: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	if said := writeUntilEnd(t, process); !strings.Contains(said, server.ErrDiskFull.Error()) {
		t.Errorf("it has ended without saying why:\n%s", said)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	process.Restart(t)
	if object, err := patient.Get(t.Context(), "kept"); err != nil || object.Revision != kept {
		t.Errorf("revision %d, %v; want %d", object.Revision, err, kept)
	}
	if _, err := patient.Put(t.Context(), store.Write{Key: "next"}); err != nil {
		t.Error(err)
	}
}

// writeUntilEnd makes objects until etcd ends, and returns what it has said.
func writeUntilEnd(t *testing.T, process *servertest.Process) (said string) {
	t.Helper()
	client := open(t, etcd.Config{Endpoints: []string{process.Endpoint()}, Timeout: time.Second})
	ended := make(chan string, 1)
	go func() { ended <- process.Wait() }()
	for n := 0; ; n++ {
		select {
		case said := <-ended:
			return said
		default:
		}
		_, err := client.Put(t.Context(), store.Write{Key: fmt.Sprintf("o/%d", n), Value: filler})
		if err != nil && !errors.Is(err, store.ErrUnavailable) || n > 10_000 {
			t.Fatal(n, err)
		}
	}
}

// fillDisk writes a file until there is no space.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(filler)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
