package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
)

// spec is the description of a small launch.
const spec = `{"name":"t","jobs":[{"name":"main","processes":[{"command":["true"]}]}]}`

// connect returns a client of some sockets.
func connect(t *testing.T, sockets ...string) *api.Client {
	t.Helper()
	c := api.Connect(api.Endpoints{Addresses: sockets})
	t.Cleanup(c.Close)
	return c
}

func create(t *testing.T, c *api.Client, request string) (*api.CreateReply, error) {
	t.Helper()
	return c.Launches.Create(t.Context(), &api.CreateRequest{Spec: []byte(spec), Request: request})
}

func TestRedirect(t *testing.T) {
	cluster := apitest.New(t)
	follower, leader := cluster.Listen(t), cluster.Listen(t)
	follower.Follow(leader.Socket)
	c := connect(t, follower.Socket)
	reply, err := create(t, c, "")
	if err != nil || len(reply.GetLaunches()) != 1 {
		t.Fatalf("%v, %v", reply, err)
	}
	if _, err := c.Launches.Stop(t.Context(), &api.ActRequest{Id: "1"}); err != nil {
		t.Error(err)
	}
	if follower.Seen() != 1 || leader.Seen() != 2 {
		t.Errorf("the follower has seen %d requests and the leader %d; want 1 and 2", follower.Seen(), leader.Seen())
	}
}

// TestRedirectStream: a stream goes to the leader too, and follows it.
func TestRedirectStream(t *testing.T) {
	cluster := apitest.New(t)
	follower, leader := cluster.Listen(t), cluster.Listen(t)
	follower.Follow(leader.Socket)
	cluster.Add(&api.Launch{Name: "a"})
	stream, err := connect(t, follower.Socket).Launches.Watch(t.Context(), &api.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 3; want++ {
		reply, err := stream.Recv()
		if err != nil || len(reply.GetLaunches()) != want {
			t.Fatalf("%v, %v; want %d launches", reply, err, want)
		}
		cluster.Add(&api.Launch{})
	}
}

// TestElection: requests wait while no controller leads.
func TestElection(t *testing.T) {
	cluster := apitest.New(t)
	k := cluster.Listen(t)
	k.Follow("")
	var tries atomic.Int64
	k.Fail(func(string) error {
		if tries.Add(1) == 3 {
			k.Lead()
		}
		return nil
	})
	if _, err := connect(t, k.Socket).Launches.List(t.Context(), &api.ListRequest{}); err != nil || tries.Load() != 3 {
		t.Errorf("%v after %d tries, want none after 3", err, tries.Load())
	}
}

// TestLateStart: a controller that is started while a request waits answers it. Nothing was sent
// before, so this holds for changes, too.
func TestLateStart(t *testing.T) {
	cluster := apitest.New(t)
	socket := filepath.Join(t.TempDir(), "s")
	cluster.Add(&api.Launch{})
	c := connect(t, filepath.Join(t.TempDir(), "none"), socket)
	done := make(chan error, 1)
	go func() {
		_, err := c.Launches.Stop(t.Context(), &api.ActRequest{Id: "1"})
		done <- err
	}()
	cluster.ListenAt(t, socket)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSilent: a controller that takes a connection and then says nothing is left for another one.
func TestSilent(t *testing.T) {
	cluster := apitest.New(t)
	silent := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	leader := cluster.Listen(t)
	// gRPC alone gives up after 20 s.
	c := api.Connect(api.Endpoints{Addresses: []string{silent, leader.Socket}, Patience: 10 * time.Second})
	defer c.Close()
	if _, err := create(t, c, ""); err != nil {
		t.Error(err)
	}
	c = api.Connect(api.Endpoints{Addresses: []string{silent}, Patience: time.Second})
	defer c.Close()
	if _, err := create(t, c, ""); !errors.Is(err, api.ErrUnavailable) || !strings.Contains(err.Error(), silent+" has not answered") {
		t.Errorf("without another one: %v", err)
	}
}

// TestNoRepeat: a change that the controller may have made before it broke is not made again.
func TestNoRepeat(t *testing.T) {
	cluster := apitest.New(t)
	k := cluster.Listen(t)
	k.Fail(func(string) error { return api.ErrUnavailable })
	c := connect(t, k.Socket)
	if _, err := c.Launches.Stop(t.Context(), &api.ActRequest{Id: "1"}); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("stop: %v", err)
	}
	if _, err := create(t, c, ""); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if k.Seen() != 2 {
		t.Errorf("%d requests, want each once", k.Seen())
	}
}

// TestRepeat: Create with a number of its own is repeated, and creates one launch, although the
// first answer was lost.
func TestRepeat(t *testing.T) {
	cluster := apitest.New(t)
	first, second := cluster.Listen(t), cluster.Listen(t)
	first.Fail(func(string) error {
		if _, err := create(t, connect(t, second.Socket), "r-1"); err != nil {
			t.Error(err)
		}
		return api.ErrUnavailable
	})
	reply, err := create(t, connect(t, first.Socket, second.Socket), "r-1")
	if err != nil || len(reply.GetLaunches()) != 1 || cluster.Created() != 1 {
		t.Errorf("%v, %v: %d launches, want 1", reply, err, cluster.Created())
	}
}

// TestGiveUp: controllers that name each other, or one that needs a token, end in an error.
func TestGiveUp(t *testing.T) {
	cluster := apitest.New(t)
	a, b := cluster.Listen(t), cluster.Listen(t)
	for leader, want := range map[string]string{b.Socket: "does not lead", "far:7411": "far:7411 leads, and reaching it needs a token"} {
		a.Follow(leader)
		b.Follow(a.Socket)
		c := api.Connect(api.Endpoints{Addresses: []string{a.Socket}, Patience: 100 * time.Millisecond})
		_, err := c.Launches.List(t.Context(), &api.ListRequest{})
		if !errors.Is(err, api.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c.Close()
	}
}

func TestErrors(t *testing.T) {
	cluster := apitest.New(t)
	c := connect(t, cluster.Listen(t).Socket)
	if _, err := c.Launches.Stop(t.Context(), &api.ActRequest{Id: "9"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("unknown launch: %v", err)
	}
	stream, err := c.Launches.Logs(t.Context(), &api.LogsRequest{What: "9"})
	if err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, api.ErrNotFound) {
		t.Errorf("log of an unknown launch: %v", err)
	}
	cluster.Add(&api.Launch{})
	if stream, err = c.Launches.Logs(t.Context(), &api.LogsRequest{What: "1"}); err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("empty log: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Launches.List(ctx, &api.ListRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestToken: no token leaves the machine without TLS.
func TestToken(t *testing.T) {
	c := connect(t, "127.0.0.1:1")
	if _, err := c.Launches.List(t.Context(), &api.ListRequest{}); !errors.Is(err, api.ErrUnknownCaller) {
		t.Error(err)
	}
}

// TestMany: a list of 10,000 launches arrives whole.
func TestMany(t *testing.T) {
	cluster := apitest.New(t)
	for range 10_000 {
		cluster.Add(&api.Launch{Name: "many"})
	}
	reply, err := connect(t, cluster.Listen(t).Socket).Launches.List(t.Context(), &api.ListRequest{})
	if err != nil || len(reply.GetLaunches()) != 10_000 || reply.GetLaunches()[0].GetNumber() != 10_000 {
		t.Errorf("%d launches, %v", len(reply.GetLaunches()), err)
	}
	if slices.ContainsFunc(reply.GetLaunches(), func(l *api.Launch) bool { return l.GetId() == "" }) {
		t.Error("a launch has no id")
	}
}

// TestKilled: a stream of which the controller is killed ends with an error, and not as if it were
// complete.
func TestKilled(t *testing.T) {
	cluster := apitest.New(t)
	k := cluster.Listen(t)
	stream, err := connect(t, k.Socket).Launches.Watch(t.Context(), &api.ListRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	k.Kill()
	_ = os.Remove(k.Socket)
	if _, err := stream.Recv(); !errors.Is(err, api.ErrUnavailable) {
		t.Error(err)
	}
}
