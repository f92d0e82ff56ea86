package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/cluster/agent/link"
	"github.com/phos-gpu/phos/cluster/agent/overlay"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/renewal"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestMain is also the main function of what an agent starts, and of an agent that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervisor.Role:
			os.Exit(supervisor.Main(os.Args[2:]))
		case UnpackRole:
			os.Exit(UnpackMain())
		case overlay.Role:
			os.Exit(overlay.Main())
		case saver.SaveRole:
			os.Exit(saver.SaveMain())
		case saver.RestoreRole:
			os.Exit(saver.RestoreMain(os.Args[2:]))
		case agentRole:
			os.Exit(runAgent(place{state: os.Args[2], controller: os.Args[3], phosd: os.Args[4]}))
		}
	}
	os.Exit(m.Run())
}

// agentRole is the argument with which this program is an agent.
const agentRole = "agent"

// ring has the CA of all tests.
var ring = func() authority.Ring {
	made, err := authority.NewRing("abcdefghijkl2345", time.Now())
	if err != nil {
		panic(err)
	}
	return made
}()

// certificate returns a valid certificate of the node.
func certificate() (*renewal.Node, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	subject := identity.Subject{Cluster: ring.Bundle().Cluster(), Kind: identity.Node, Name: "n1"}
	request, err := authority.NewRequest(subject, key)
	if err != nil {
		return nil, err
	}
	leaf, err := ring.Signer().IssueNode(request, "n1", time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	shown := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	keep := func(*x509.Certificate, authority.Bundle) error { return nil }
	return renewal.New(channel.NewHolder(shown, ring.Bundle()), keep, time.Now), nil
}

// place is where an agent has its state, and the sockets that it knows.
type place struct{ state, controller, phosd string }

// newAgent returns the agent of a node that knows one controller, without TLS.
func newAgent(ctx context.Context, at place, log *slog.Logger) (*Agent, error) {
	shown, err := certificate()
	if err != nil {
		return nil, err
	}
	return New(ctx, Config{
		Node: "n1", Address: "127.0.0.1", StateDir: at.state, AllowRoot: true, Version: "test", Phosd: at.phosd,
		Contact: link.Contact{
			Controllers: []string{at.controller}, Certificate: shown, Log: log,
			SaveControllers: func([]string) error { return nil },
			Dial: func(address string) (*grpc.ClientConn, error) {
				patient := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: time.Hour})
				return grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), patient)
			},
		},
	})
}

// runAgent is the main function of an agent that is killed.
func runAgent(at place) int {
	a, err := newAgent(context.Background(), at, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		err = a.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// node is a node in a test, whose processes are told from others by a variable.
type node struct {
	*testing.T
	*leader
	state, mark string
	phosd       string   // its socket
	agents      []*Agent // also those that were stopped: they see how processes end
}

// newNode returns a node without an agent.
func newNode(t *testing.T) *node {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	if _, err := cgroup.Top(); err != nil {
		harness.Need(t, "cgroups", err)
	}
	n := &node{
		T: t, leader: newLeader(t), state: filepath.Join(t.TempDir(), "state"),
		phosd: filepath.Join(t.TempDir(), "none"), mark: fmt.Sprintf("PHOS_MARK=%s.%d", t.Name(), os.Getpid()),
	}
	t.Cleanup(n.endAll)
	return n
}

// run runs an agent until the test ends, or stop is called.
func (n *node) run() (a *Agent, stop func()) {
	n.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := newAgent(ctx, place{n.state, n.address, n.phosd}, slog.New(slog.NewTextHandler(n.Output(), nil)))
	if err != nil {
		n.T.Fatal(err)
	}
	n.agents = append(n.agents, a)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Run(ctx) // it ends with the context
	}()
	stop = func() {
		cancel()
		<-ended
	}
	n.Cleanup(stop)
	return a, stop
}

// endAll ends what the test has left.
func (n *node) endAll() {
	keys, err := supervisor.List(filepath.Join(n.state, "attempts"))
	if err != nil {
		return // there was no agent
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	for _, key := range keys {
		left, status, err := supervisor.Adopt(ctx, filepath.Join(n.state, "attempts"), key)
		if err != nil {
			n.Error(err)
			continue
		}
		_ = left.Kill(ctx) // it may have ended
		if _, err := left.Wait(ctx); err != nil {
			n.Error(err)
		}
		harness.Eventually(n.T, "the supervisor exits", status.Supervisor.Gone)
	}
	for _, a := range n.agents {
		harness.Eventually(n.T, "the agent knows all ends", func() bool {
			return !slices.ContainsFunc(a.attempts.reports(), func(r *api.Report) bool { return r.GetState() != "ended" })
		})
	}
}

// marked lists the processes of the node's attempts, by their environment.
func (n *node) marked() (found []int) {
	n.T.Helper()
	pids, err := proc.All()
	if err != nil {
		n.T.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(append(text, 0), []byte(n.mark+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// one names the first attempt of a launch.
func one(launch string) *api.Attempt { return &api.Attempt{Launch: launch, Attempt: 1} }

// shell returns the order to run a script.
func (n *node) shell(launched, script string) *api.Order {
	return &api.Order{
		Attempt: one(launched), Do: string(launch.Run), Owner: "root", GraceMs: 60_000,
		Processes: []*api.ProcessOrder{{
			Command: [][]byte{[]byte("sh"), []byte("-c"), []byte(script)}, Environment: [][]byte{[]byte(n.mark)},
		}},
	}
}

// keyOfReport returns which attempt a report is about.
func keyOfReport(r *api.Report) supervisor.Key {
	return supervisor.Key{Launch: r.GetLaunch(), Replica: int(r.GetReplica()), Attempt: int(r.GetAttempt())}
}

// writeFile makes an empty file, for which a process waits.
func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// forEver sleeps until the process is killed.
const forEver = "exec sleep 1000000"

// hour is long enough that no attempt of a test is fenced.
const hour = 3_600_000
