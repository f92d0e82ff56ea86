package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cli/cluster/code"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// anyController is a connection to the controllers of a site. A request goes to the one that has
// answered last, and on to the others if that does not lead.
type anyController struct {
	conns []*grpc.ClientConn
	last  atomic.Int32
}

// dial connects to a controller's socket, as root of its host.
func dial(t *testing.T, h *hosts.Host) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+h.Name, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond},
		}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return h.Dial(ctx, "unix", api.ControllerSocket)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Invoke makes a request.
func (a *anyController) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) (err error) {
	for range a.conns {
		i := a.last.Load()
		if err = a.conns[i].Invoke(ctx, method, args, reply, opts...); status.Code(err) != codes.Unavailable {
			return err
		}
		a.last.CompareAndSwap(i, (i+1)%int32(len(a.conns)))
	}
	return err
}

// sure makes a request until a controller answers it. Leases are short here: on a busy machine a
// leader may lose its own.
func sure[Request, Reply any](
	s *site, ask func(context.Context, Request, ...grpc.CallOption) (Reply, error), request Request,
) (reply Reply) {
	s.Helper()
	harness.Eventually(s.T, "a controller answers", func() bool {
		var err error
		if reply, err = ask(s.Context(), request); err != nil && status.Code(err) != codes.Unavailable {
			s.Fatal(err)
		}
		return err == nil
	})
	return reply
}

// NewStream makes a request with a stream, to the controller that has answered last.
func (a *anyController) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return a.conns[a.last.Load()].NewStream(ctx, desc, method, opts...)
}

// startControllers starts a controller on each of the first hosts: one alone, or several as peers.
func (s *site) startControllers(count int, settings string) {
	s.Helper()
	var peers strings.Builder
	if count > 1 {
		s.makePeers(count, &peers)
	}
	to := &anyController{}
	for _, h := range s.hosts[:count] {
		s.write(h, "/etc/phos/controller.toml", settings+peers.String())
		s.controllers = append(s.controllers, h.Daemon(hosts.Daemon{
			Name: "controller", ReadyFD: count == 1, // one of several serves when others run, too
			Arguments: []string{h.Binary("phos-controller"), "--log-level=debug"},
		}))
		to.conns = append(to.conns, dial(s.T, h))
	}
	s.launches, s.cluster = api.NewLaunchesClient(to), api.NewClusterClient(to)
	harness.Eventually(s.T, "a controller leads", func() bool {
		_, err := s.cluster.Status(s.Context(), &api.StatusRequest{})
		return err == nil
	})
}

// makePeers gives the first hosts the certificates of peers, and returns their configuration.
func (s *site) makePeers(count int, configuration *strings.Builder) {
	s.Helper()
	first := s.hosts[0]
	dir := filepath.Join(hosts.SharedDir, "peers")
	arguments := []string{first.Binary("phos-controller"), "peers", dir}
	fmt.Fprintln(configuration, "[store.peers]")
	for _, h := range s.hosts[:count] {
		arguments = append(arguments, fmt.Sprintf("%s=%s", h.Name, h.Address))
		fmt.Fprintf(configuration, "%s = %q\n", h.Name, h.Address)
	}
	first.Run(arguments...)
	for _, h := range s.hosts[:count] {
		h.Run("mkdir", "-p", "/etc/phos")
		h.Run("cp", "-r", filepath.Join(dir, h.Name), "/etc/phos/store")
	}
}

// leader returns the index of the host whose controller leads.
func (s *site) leader() int {
	s.Helper()
	var leader string
	harness.Eventually(s.T, "a controller leads", func() bool {
		reply, err := s.cluster.Status(s.Context(), &api.StatusRequest{})
		leader, _, _ = net.SplitHostPort(reply.GetLeader())
		return err == nil
	})
	for i, h := range s.hosts {
		if h.Address.String() == leader {
			return i
		}
	}
	s.Fatalf("the leader is at %s, which is no host", leader)
	return 0
}

// sendCode sends a directory with one file to the controller that leads.
func (s *site) sendCode(text string) *api.CodeRef {
	s.Helper()
	dir := s.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "message"), []byte(text+"\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	packed, err := code.Pack(s.Context(), dir, 1<<20)
	if err != nil {
		s.Fatal(err)
	}
	again := false
	harness.Eventually(s.T, "a controller takes the code", func() bool {
		sent, err := messages.SendCode(s.Context(), s.launches, packed.Ref(), bytes.NewReader(packed.Bytes))
		if err != nil && !errors.Is(api.FromStatus(err), api.ErrUnavailable) || err == nil && !sent && !again {
			s.Fatal(sent, err)
		}
		again = true // a request without an answer may have been carried out
		return err == nil
	})
	return packed.Ref()
}

// TestLeaderDies: the host of the controller that leads loses its power. Another one leads; what
// runs elsewhere does not notice, and what is launched then runs, with code that only the
// controller that died was sent.
func TestLeaderDies(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteOf(t, 3, 3, 1)
	for i := range 2 {
		leader := s.leader()
		ref := s.sendCode(fmt.Sprintf("text %d", i))
		spec := shell("while :; do echo tick; sleep 0.1; done", 2, 1)
		for i, h := range s.hosts {
			if i != leader {
				spec.Place.Hostnames = append(spec.Place.Hostnames, h.Name)
			}
		}
		id := s.launch(spec)
		before := s.awaitRunning(id)
		token := sure(s, s.cluster.NewJoinToken, &api.NewJoinTokenRequest{})
		s.hosts[leader].Kill()
		died := time.Now()
		joins := s.hosts[(leader+1)%3]
		joins.Run(joins.Binary("phos-agent"), "join", "--state-dir", fmt.Sprint("/tmp/late-", i), "--name", fmt.Sprint("late-", i), token.GetToken())
		if s.leader() == leader {
			t.Errorf("node%d leads, and is off", leader+1)
		}
		t.Logf("another controller leads after %v", time.Since(died))
		for i, r := range s.awaitRunning(id).GetReplicas() {
			if r.GetAttempt() != before.GetReplicas()[i].GetAttempt() {
				t.Errorf("replica %d is in attempt %d after %d", i, r.GetAttempt(), before.GetReplicas()[i].GetAttempt())
			}
		}
		s.stop(id)
		next := s.launchCode(shell("cat message", 1, 1), ref)
		if got := s.await(next, "ended"); got.GetResult() != "completed" {
			t.Errorf("a launch after that is %s: %s", got.GetResult(), got.GetReason())
		}
		if text := s.logs(next); text != fmt.Sprintf("text %d\n", i) {
			t.Errorf("its log is %q", text)
		}
		s.boot(leader)
		s.awaitNodes(3)
	}
}
