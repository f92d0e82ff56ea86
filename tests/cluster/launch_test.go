package cluster

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// TestOneHost: a launch runs on a cluster of one, and its status, exit code and log come back.
func TestOneHost(t *testing.T) {
	s := newSite(t, 1, 2)
	id := s.launch(shell(`echo "hello from $PHOS_JOB_NAME.$PHOS_REPLICA on $PHOS_NODE with $CUDA_VISIBLE_DEVICES"; exit 3`, 1, 2))
	got := s.await(id, "ended")
	if got.GetResult() != "failed" || got.GetStatus() != 3 {
		t.Errorf("got %s with status %d: %s", got.GetResult(), got.GetStatus(), got.GetReason())
	}
	if text := s.logs(id); text != "hello from main.0 on node1 with 0,1\n" {
		t.Errorf("the log is %q", text)
	}
}

// TestHosts: replicas of a launch run on several hosts, each with its rank and the same rendezvous.
func TestHosts(t *testing.T) {
	s := newSite(t, 3, 1)
	id := s.launch(shell(`echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"`, 3, 1))
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("got %s: %s", got.GetResult(), got.GetReason())
	}
	text := s.logs(id)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 3 {
		t.Fatalf("the log is %q", text)
	}
	for i, rest := range lines {
		if _, at, _ := strings.Cut(rest, " at "); !strings.HasSuffix(lines[0], at) || at == "" {
			t.Errorf("line %d of the log is %q, and the first %q", i, rest, lines[0])
		}
	}
}

// TestSilent: the log of processes that have printed nothing is empty, and ends.
func TestSilent(t *testing.T) {
	s := newSite(t, 1, 1)
	id := s.launch(shell("exec sleep 1000", 1, 1))
	s.awaitRunning(id)
	for _, follow := range []bool{false, true} {
		stream, err := s.launches.Logs(t.Context(), &api.LogsRequest{What: id, Follow: follow})
		if err != nil {
			t.Fatal(err)
		}
		if follow {
			s.stop(id)
		}
		if reply, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("follow %v: got %v, %v", follow, reply, err)
		}
	}
}
