package server_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// startMembers starts all members at the same time.
func startMembers(t *testing.T, configs []server.Config) (members []*servertest.Process, endpoints []string) {
	t.Helper()
	for _, config := range configs {
		members = append(members, servertest.Launch(t, config))
		endpoints = append(endpoints, config.Members.ClientURL)
	}
	for _, member := range members {
		member.Await(t)
	}
	return members, endpoints
}

// TestMembers kills members of an etcd of three: one is not missed, two are.
func TestMembers(t *testing.T) {
	t.Parallel()
	authority := servertest.NewAuthority(t)
	members, endpoints := startMembers(t, servertest.Members(t, authority, "a", "b", "c"))
	config := etcd.Config{Endpoints: endpoints, TLS: authority.Client(t, "controller"), Timeout: time.Second}
	s := open(t, config)
	revision := increase(t, s, store.New)
	strangersAreRefused(t, authority, endpoints)

	members[0].Kill()
	for range 10 {
		revision = increase(t, s, revision)
	}
	members[1].Kill()
	if _, err := s.Put(t.Context(), store.Write{Key: "b"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("two of three are dead, and a write ends with %v", err)
	}
	members[1].Restart(t)
	for range 10 {
		revision = increase(t, s, revision)
	}
	members[2].Kill() // the first one has missed all this
	members[0].Restart(t)
	if object, err := s.Get(t.Context(), "a"); err != nil || object.Revision != revision || len(object.Value) != 21 {
		t.Errorf("%v at %d, %v; want 21 bytes at %d", object, object.Revision, err, revision)
	}
	restoreMembers(t, s, authority)
}

// increase makes an object one byte longer, however often it takes. It returns the new revision.
func increase(t *testing.T, s *etcd.Store, before store.Revision) store.Revision {
	t.Helper()
	for {
		object, err := s.Get(t.Context(), "a")
		if err == nil && object.Revision != before { // the write before this one was done, without an answer
			return object.Revision
		}
		var revision store.Revision
		if err == nil || errors.Is(err, store.ErrNotFound) {
			revision, err = s.Put(t.Context(), store.Write{Key: "a", Value: append(object.Value, '+'), Replaces: before})
		}
		switch {
		case err == nil:
			return revision
		case !errors.Is(err, store.ErrUnavailable):
			t.Fatal(err)
		}
	}
}

// strangersAreRefused tries certificates that are not those of members and controllers.
func strangersAreRefused(t *testing.T, authority *servertest.Authority, endpoints []string) {
	t.Helper()
	stranger := servertest.NewAuthority(t).Client(t, "controller")
	stranger.RootCAs = authority.Client(t, "").RootCAs
	for name, config := range map[string]*tls.Config{
		"no certificate": authority.Client(t, ""), "a node's": authority.Client(t, "node"), "another authority's": stranger,
	} {
		s := open(t, etcd.Config{Endpoints: endpoints, TLS: config, Timeout: 300 * time.Millisecond})
		_, err := s.Get(t.Context(), "a")
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
	wrong := open(t, etcd.Config{Endpoints: endpoints, TLS: servertest.NewAuthority(t).Client(t, "controller"), Timeout: time.Second})
	if _, err := wrong.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that does not know the authority says %v", err)
	}
}

// restoreMembers makes new members of a snapshot.
func restoreMembers(t *testing.T, s *etcd.Store, authority *servertest.Authority) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Snapshot(t.Context(), file), file.Close()); err != nil {
		t.Fatal(err)
	}
	configs := servertest.Members(t, authority, "x", "y", "z")
	for _, config := range configs {
		if err := server.Restore(path, config); err != nil {
			t.Fatal(err)
		}
	}
	members, endpoints := startMembers(t, configs)
	restored := open(t, etcd.Config{Endpoints: endpoints, TLS: authority.Client(t, "controller")})
	want, err := s.Get(t.Context(), "a")
	got, gotErr := restored.Get(t.Context(), "a")
	if err != nil || gotErr != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("restored %v, %v; want %v, %v", got, gotErr, want, err)
	}
	members[0].Kill()
	increase(t, restored, got.Revision)
}
