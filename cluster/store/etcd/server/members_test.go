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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
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
	seen := make(chan int, 100)
	go watchLengths(t, open(t, config), seen)
	revision := increase(t, s, store.New)
	strangersAreRefused(t, authority, endpoints)
	if rounds.All() {
		revision = frozenIsNotMissed(t, members[0], config, revision)
	}

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
	config.Timeout = harness.Patience
	patient := open(t, config)
	object, err := patient.Get(t.Context(), "a")
	if err != nil || object.Revision != revision || len(object.Value) < 21 {
		t.Errorf("%v at %d, %v; want at least 21 bytes at %d", object, object.Revision, err, revision)
	}
	for want := range len(object.Value) {
		if got := <-seen; got != want+1 {
			t.Errorf("a watch has seen %d bytes as the change %d", got, want+1)
		}
	}
	restoreMembers(t, patient, authority)
}

// watchLengths sends the length of an object after each change.
func watchLengths(t *testing.T, s *etcd.Store, seen chan<- int) {
	err := s.Watch(t.Context(), "a", 0, func(changes []store.Change) error {
		for _, change := range changes {
			seen <- len(change.Value)
		}
		return nil
	})
	if t.Context().Err() == nil {
		t.Errorf("the watch ended with %v", err)
	}
}

// frozenIsNotMissed: a leader renews its lease although one of three members stands still. Where
// the others need long to go on without it, a longer lease gives them the time.
func frozenIsNotMissed(t *testing.T, member *servertest.Process, config etcd.Config, before store.Revision) store.Revision {
	t.Helper()
	for config.Lease = etcd.DefaultLease; ; config.Lease *= 2 {
		renewed := false
		if renewed, before = renewsWithout(t, member, config, before); renewed {
			return before
		}
		if config.Lease > 8*etcd.DefaultLease {
			t.Fatalf("not even a lease of %v was renewed with one of three members", config.Lease)
		}
	}
}

// renewsWithout reports whether a leader keeps its lease while a member stands still.
func renewsWithout(
	t *testing.T, member *servertest.Process, config etcd.Config, before store.Revision,
) (renewed bool, after store.Revision) {
	t.Helper()
	s := open(t, config)
	leads, err := s.Campaign(t.Context(), "leader")
	if err != nil {
		t.Fatal(err)
	}
	alarm, err := boottime.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer alarm.Close()
	member.Freeze(t)
	defer member.Thaw(t)
	for range 3 {
		before = increase(t, s, before)
		if err := errors.Join(alarm.Set(leads.Until()), alarm.Wait()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-leads.Lost():
			return false, before
		default:
		}
	}
	return true, before
}

// TestJoin adds a member to an etcd that runs.
func TestJoin(t *testing.T) {
	t.Parallel()
	authority := servertest.NewAuthority(t)
	configs := servertest.Members(t, authority, "first", "joining")
	alone := *configs[0].Members
	alone.PeerURLs = map[string]string{"first": alone.PeerURLs["first"]}
	configs[0].Members, configs[0].Socket = &alone, filepath.Join(servertest.Dir(t), "etcd.sock")
	servertest.Start(t, configs[0])
	local := open(t, etcd.Config{Endpoints: []string{"unix://" + configs[0].Socket}})
	revision, err := local.Put(t.Context(), store.Write{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	addMember(t, configs[0].Socket, configs[1].Members.PeerURLs["joining"])
	configs[1].Members.Join = true
	servertest.Start(t, configs[1])
	joined := open(t, etcd.Config{
		Endpoints: []string{configs[1].Members.ClientURL}, TLS: authority.Client(t, "controller"),
	})
	if object, err := joined.Get(t.Context(), "a"); err != nil || object.Revision != revision {
		t.Errorf("the new member has %d, %v; want %d", object.Revision, err, revision)
	}
	if _, err := joined.Put(t.Context(), store.Write{Key: "b"}); err != nil {
		t.Error(err)
	}
}

// addMember tells an etcd of a new member, as an operator does by etcdctl.
func addMember(t *testing.T, socket, peer string) {
	t.Helper()
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.MemberAdd(t.Context(), []string{peer}); err != nil {
		t.Fatal(err)
	}
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
	harness.Eventually(t, "a client that does not know the authority says so", func() bool { // once it has connected
		_, err := wrong.Get(t.Context(), "a")
		return err != nil && strings.Contains(err.Error(), "certificate")
	})
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
	restored := open(t, etcd.Config{Endpoints: endpoints, TLS: authority.Client(t, "controller"), Timeout: harness.Patience})
	want, err := s.Get(t.Context(), "a")
	got, gotErr := restored.Get(t.Context(), "a")
	if err != nil || gotErr != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("restored %v, %v; want %v, %v", got, gotErr, want, err)
	}
	members[0].Kill()
	increase(t, restored, got.Revision)
}
