package cluster

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// compact makes the store forget the history of all changes, by the controller of a host.
func (s *site) compact(h *hosts.Host) {
	s.Helper()
	client := s.etcd(h)
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	now, err := client.Get(ctx, "/")
	if err == nil {
		_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		s.Logf("the store of %s is not compacted: %v", h.Name, err) // its member may not have the others now
	}
}

// follower returns the index of a controller that leads neither the cluster nor the store.
func (s *site) follower() int {
	s.Helper()
	leader, found := s.leader(), -1
	harness.Eventually(s.T, "a controller only follows", func() bool {
		for i := range s.controllers {
			client := s.etcd(s.hosts[i])
			status, err := client.Status(s.Context(), client.Endpoints()[0])
			if err == nil && i != leader && status.Leader != 0 && status.Leader != status.Header.MemberId {
				found = i
			}
		}
		return found >= 0
	})
	return found
}

// TestCompacted: the store forgets its history while controllers, agents and a client watch, and
// while one controller stands still that waits to lead. Nothing is lost for any of them: when that
// controller leads, it knows what it has missed.
func TestCompacted(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteOf(t, 3, 3, 1)
	watch, err := s.launches.Watch(t.Context(), &api.ListRequest{Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 100)
	go func() {
		defer close(ended)
		for {
			reply, err := watch.Recv()
			if err != nil {
				return
			}
			for _, l := range reply.GetLaunches() {
				if l.GetPhase() == "ended" {
					ended <- l.GetId()
				}
			}
		}
	}()
	leader, behind := s.leader(), s.follower()
	id := s.launch(shell("sleep 1000", 3, 1))
	before := s.awaitRunning(id)
	s.controllers[behind].Signal(syscall.SIGSTOP)
	missed := s.launch(shell("true", 3, 0))
	s.await(missed, "ended")
	s.compact(s.hosts[leader])
	after := s.launch(shell("true", 3, 0))
	s.await(after, "ended")
	s.compact(s.hosts[leader])
	s.controllers[behind].Signal(syscall.SIGCONT)
	var seen []string
	for len(seen) < 2 {
		one, open := <-ended
		if !open {
			t.Fatalf("the watch has ended, with %v", seen)
		}
		seen = append(seen, one)
	}
	slices.Sort(seen)
	if want := []string{missed, after}; !slices.Equal(seen, slices.Sorted(slices.Values(want))) {
		t.Errorf("the client has seen the ends of %v, want %v", seen, want)
	}

	for leader != behind { // leaders are killed until it is its turn
		s.controllers[leader].Kill()
		next := s.leader()
		s.controllers[leader].Start()
		leader = next
	}
	for _, known := range []string{missed, after} {
		if got := s.await(known, "ended"); got.GetResult() != "completed" {
			t.Errorf("launch %s is %s", known, got.GetResult())
		}
	}
	for i, r := range s.awaitRunning(id).GetReplicas() {
		if r.GetAttempt() != before.GetReplicas()[i].GetAttempt() {
			t.Errorf("replica %d is in attempt %d", i, r.GetAttempt())
		}
	}
	s.stop(id)
}
