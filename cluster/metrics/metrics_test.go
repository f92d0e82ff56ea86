package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// gather returns the numbers of phos, by name and labels. Histograms give their counts.
func gather(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "phos_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
			}
			// Only one of them is set.
			found[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

// check compares the numbers whose names begin with one of some words.
func check(t *testing.T, got map[string]float64, want map[string]float64, prefixes ...string) {
	t.Helper()
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(each string) bool { return strings.HasPrefix(name, each) })
	})
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// someGPUs are GPUs of each state on a node that is ready, and two free ones.
func someGPUs() []*api.GPU {
	return []*api.GPU{
		{Name: "A"},
		{Name: "A"},
		{Name: "B", Foreign: 1},
		{Name: "A", Launch: "3"},
		{Name: "A", Bad: "lost", Launch: "3"},
		{Name: "B", Launch: "4", Foreign: 2},
	}
}

// TestLeader: launches and nodes are counted by their states, and each GPU once.
func TestLeader(t *testing.T) {
	node := func(name, state string, gpus []*api.GPU) *api.Node {
		return &api.Node{Name: name, State: state, SeenUnixMs: 1500, Inventory: &api.Inventory{Gpus: gpus}}
	}
	closed, draining := node("n4", "ready", someGPUs()[:1]), node("n5", "ready", someGPUs()[2:])
	closed.Cordoned, draining.Draining = true, true
	status := &api.StatusReply{
		Epoch: 7, Launches: map[string]uint32{"running": 2, "queued": 3, "ended": 40},
		Nodes: []*api.Node{
			node("n1", "ready", someGPUs()), node("n2", "offline", someGPUs()), node("n3", "ready", nil), closed, draining,
		},
	}
	c := NewController("1.2", func(context.Context) (*api.StatusReply, error) { return status, nil })
	want := map[string]float64{
		"phos_controller_leads": 1, "phos_controller_epoch": 7, "phos_queue_depth": 3,
		"phos_launches state=waiting": 0, "phos_launches state=queued": 3, "phos_launches state=running": 2,
		"phos_launches state=stopping": 0, "phos_launches state=suspended": 0, "phos_launches state=ended": 40,
		"phos_nodes state=ready": 4, "phos_nodes state=offline": 1,
		// n1; the first of n4 and none of n5 would be free if they were open.
		"phos_gpus model=A state=free":    2,
		"phos_gpus model=B state=foreign": 1 + 1,
		// n1, n2 and n5: a launch has a GPU, and a GPU is broken, wherever it is.
		"phos_gpus model=A state=ours": 3, "phos_gpus model=B state=ours": 3, "phos_gpus model=A state=bad": 3,
		"phos_gpus model=A state=cordoned": 1, "phos_gpus model=A state=offline": 2, "phos_gpus model=B state=offline": 1,
	}
	for _, n := range status.GetNodes() {
		want["phos_node_last_seen_timestamp_seconds node="+n.GetName()] = 1.5
	}
	check(t, gather(t, c.Registry()), want, "phos_controller_", "phos_queue_depth", "phos_launches", "phos_node", "phos_gpus")
}

// TestFollower: a controller that does not lead says only that, and still counts what it has done.
func TestFollower(t *testing.T) {
	c := NewController("1.2", func(ctx context.Context) (*api.StatusReply, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("a scrape may wait for ever")
		}
		return nil, api.ErrUnavailable
	})
	c.Attempted(Placed)
	c.Attempted(Placed)
	c.Attempted(Kept)
	c.Waited(time.Minute)
	got := gather(t, c.Registry())
	maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.HasPrefix(name, "phos_build_info") })
	check(t, got, map[string]float64{
		"phos_controller_leads":                           0,
		"phos_queue_wait_seconds":                         1,
		"phos_scheduling_attempts_total result=placed":    2,
		"phos_scheduling_attempts_total result=refused":   0,
		"phos_scheduling_attempts_total result=preempted": 0,
		"phos_scheduling_attempts_total result=kept":      1,
	}, "phos_")
}

// TestAgent: the numbers of an agent, before and after it has a lease.
func TestAgent(t *testing.T) {
	state := AgentState{CertificateEnds: time.UnixMilli(9_500), Epoch: 4, Attempts: map[string]int{"running": 2}}
	a := NewAgent("1.2", func() AgentState { return state })
	want := map[string]float64{
		"phos_agent_attached": 0, "phos_agent_order_epoch": 4, "phos_agent_certificate_expiry_timestamp_seconds": 9.5,
		"phos_agent_attempts state=preparing": 0, "phos_agent_attempts state=running": 2, "phos_agent_attempts state=ended": 0,
	}
	check(t, gather(t, a.Registry()), want, "phos_agent_")
	state.Attached, state.Renewed = true, time.UnixMilli(1_250)
	want["phos_agent_attached"], want["phos_agent_lease_renewal_timestamp_seconds"] = 1, 1.25
	check(t, gather(t, a.Registry()), want, "phos_agent_")
}

// TestStore: each request to a store is measured once, under what came of it.
func TestStore(t *testing.T) {
	c := NewController("1.2", func(context.Context) (*api.StatusReply, error) { return nil, api.ErrUnavailable })
	plain := servertest.Store(t)
	objects, ctx := c.Store(plain), t.Context()
	want := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	_, err := objects.Get(ctx, "a")
	want(err, store.ErrNotFound)
	at, err := objects.Put(ctx, store.Write{Key: "a"})
	want(err, nil)
	_, err = objects.Put(ctx, store.Write{Key: "a"})
	want(err, store.ErrConflict)
	_, err = objects.Put(ctx, store.Write{Key: "b", Epoch: 99})
	want(err, store.ErrDeposed)
	want(objects.Delete(ctx, store.Write{Key: "a", Replaces: at + 1}), store.ErrConflict)
	_, _, err = objects.List(ctx, "")
	want(err, nil)
	_, err = objects.Get(ctx, "a")
	want(err, nil)
	want(objects.Delete(ctx, store.Write{Key: "a", Replaces: at}), nil)
	if err := objects.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = objects.List(ctx, "")
	want(err, store.ErrUnavailable)
	check(t, gather(t, c.Registry()), map[string]float64{
		"phos_store_txn_duration_seconds op=get result=not_found":   1,
		"phos_store_txn_duration_seconds op=get result=ok":          1,
		"phos_store_txn_duration_seconds op=put result=ok":          1,
		"phos_store_txn_duration_seconds op=put result=conflict":    2,
		"phos_store_txn_duration_seconds op=delete result=conflict": 1,
		"phos_store_txn_duration_seconds op=delete result=ok":       1,
		"phos_store_txn_duration_seconds op=list result=ok":         1,
		"phos_store_txn_duration_seconds op=list result=error":      1,
	}, "phos_store_")
}

// TestDocumented: docs/operating.md has each number.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	c := NewController("1.2", func(context.Context) (*api.StatusReply, error) {
		return &api.StatusReply{Nodes: []*api.Node{{Inventory: &api.Inventory{Gpus: someGPUs()}}}}, nil
	})
	_, _ = c.Store(servertest.Store(t)).Get(t.Context(), "a")
	a := NewAgent("1.2", func() AgentState { return AgentState{Renewed: time.Now()} })
	for _, registry := range []prometheus.Gatherer{c.Registry(), a.Registry()} {
		for name := range gather(t, registry) {
			if name, _, _ = strings.Cut(name, " "); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/operating.md does not have %s", name)
			}
		}
	}
}
