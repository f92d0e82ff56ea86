package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// followed are the events that a caller has got so far.
type followed struct {
	mu  sync.Mutex
	all []string
}

// has reports whether an event has come: "SOURCE KIND".
func (f *followed) has(event string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.all, event)
}

// follow follows events as a caller, until the test ends.
func (w *world) follow(caller string, request *api.EventsRequest) *followed {
	w.Helper()
	request.Follow = true
	ctx, cancel := context.WithCancel(w.as(caller))
	stream, err := w.launches().Events(ctx, request)
	if err != nil {
		w.Fatal(err)
	}
	f := &followed{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.all = append(f.all, event.GetLaunch()+event.GetNode()+" "+event.GetKind())
			f.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
	})
	return f
}

// events returns the events that there are.
func (w *world) events(caller string, request *api.EventsRequest) (found []string, err error) {
	w.Helper()
	stream, err := w.launches().Events(w.as(caller), request)
	if err != nil {
		w.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, api.FromStatus(err)
		}
		found = append(found, event.GetLaunch()+event.GetNode()+" "+event.GetKind())
	}
}

// change changes a node, as an administrator.
func (w *world) change(request *api.ChangeNodeRequest) {
	w.Helper()
	if _, err := api.NewClusterClient(w.conn).ChangeNode(w.as("root"), request); err != nil {
		w.Fatal(err)
	}
}

// cordonedNode adds a node on which launches could run, but have to wait.
func (w *world) cordonedNode(name string) {
	w.Helper()
	w.node(name)
	w.attach(name)
	w.change(&api.ChangeNodeRequest{Name: name, Cordoned: proto.Bool(true)})
}

// stop stops a launch.
func (w *world) stop(owner, id string) {
	w.Helper()
	if _, err := w.launches().Stop(w.as(owner), &api.ActRequest{Id: id}); err != nil {
		w.Fatal(err)
	}
}

// TestFollowEvents: each event comes once, to those that ask for it and may see it: also of
// launches and nodes that come later.
func TestFollowEvents(t *testing.T) {
	w := newWorld(t)
	w.cordonedNode("n1")
	old := w.submit("ada")
	all := w.follow("root", &api.EventsRequest{})
	bobs := w.follow("bob", &api.EventsRequest{})
	one := w.follow("ada", &api.EventsRequest{Launch: old})
	node := w.follow("ada", &api.EventsRequest{Node: "n1"})
	harness.Eventually(t, "the events from before are there", func() bool {
		return all.has(old+" queued") && all.has("n1 joined") && bobs.has("n1 joined") && one.has(old+" queued") && node.has("n1 joined")
	})
	fresh := w.submit("bob")
	w.node("n2")
	w.change(&api.ChangeNodeRequest{Name: "n1", Draining: proto.Bool(true)})
	w.stop("bob", fresh)
	w.stop("ada", old)
	harness.Eventually(t, "all events have come", func() bool {
		return all.has(fresh+" ended") && all.has(old+" ended") && all.has("n2 joined") && all.has("n1 draining") &&
			bobs.has(fresh+" ended") && bobs.has("n2 joined") && bobs.has("n1 draining") &&
			one.has(old+" ended") && node.has("n1 draining")
	})
	for _, test := range []struct {
		name string
		of   *followed
		want func(source string) bool
	}{
		{"all", all, func(string) bool { return true }},
		{"bob's", bobs, func(source string) bool { return source != old }},
		{"one launch's", one, func(source string) bool { return source == old }},
		{"one node's", node, func(source string) bool { return source == "n1" }},
	} {
		test.of.mu.Lock()
		seen := map[string]bool{}
		for _, event := range test.of.all {
			var source, kind string
			if _, err := fmt.Sscan(event, &source, &kind); err != nil {
				t.Fatal(event, err)
			}
			if seen[event] || !test.want(source) {
				t.Errorf("%s events have %q, before: %v", test.name, event, seen[event])
			}
			seen[event] = true
		}
		test.of.mu.Unlock()
	}
}

// TestEvents: without following, the events that there are come in the order of time. What is not
// there, or hidden, is not found.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.cordonedNode("n1")
	time.Sleep(2 * time.Millisecond) // events of one millisecond have no order
	id := w.submit("ada")
	w.stop("ada", id)
	for _, test := range []struct {
		caller  string
		request *api.EventsRequest
		want    []string
		err     error
	}{
		{"ada", &api.EventsRequest{}, []string{"n1 joined", "n1 cordoned", id + " queued", id + " ended"}, nil},
		{"viewer", &api.EventsRequest{}, []string{"n1 joined", "n1 cordoned", id + " queued", id + " ended"}, nil},
		{"ada", &api.EventsRequest{Tail: 1}, []string{id + " ended"}, nil},
		{"ada", &api.EventsRequest{Tail: 99}, []string{"n1 joined", "n1 cordoned", id + " queued", id + " ended"}, nil},
		{"ada", &api.EventsRequest{Launch: "1", Tail: 1}, []string{id + " ended"}, nil},
		{"ada", &api.EventsRequest{SinceUnixMs: 1 << 60}, nil, nil},
		{"bob", &api.EventsRequest{}, []string{"n1 joined", "n1 cordoned"}, nil},
		{"bob", &api.EventsRequest{Launch: id}, nil, api.ErrNotFound},
		{"ada", &api.EventsRequest{Launch: "no such launch"}, nil, api.ErrNotFound},
		{"ada", &api.EventsRequest{Node: "no such node"}, nil, api.ErrNotFound},
		{"ada", &api.EventsRequest{Node: "n1"}, []string{"n1 joined", "n1 cordoned"}, nil},
		{"ada", &api.EventsRequest{Node: "n1", Launch: id}, nil, nil},
		{"", &api.EventsRequest{}, nil, api.ErrUnknownCaller},
	} {
		got, err := w.events(test.caller, test.request)
		if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%q asks for %v: %v, %v; want %v, %v", test.caller, test.request, got, err, test.want, test.err)
		}
	}
}

// TestEventsOfFollower: a controller that does not lead names the one that does, and knows nothing.
func TestEventsOfFollower(t *testing.T) {
	w := newFollower(t)
	if got, err := w.events("ada", &api.EventsRequest{}); got != nil || !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("%v, %v", got, err)
	}
}
