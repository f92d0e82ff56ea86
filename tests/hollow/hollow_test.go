package hollow

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestMany has more launches than GPUs on many nodes, and a controller that is killed amid them.
// All launches end, each was started once, and no GPU had two users.
func TestMany(t *testing.T) {
	const nodes, gpus, launches = 20, 4, 200
	s := NewSite(t, 2, "")
	client := s.Client()
	f := s.Fleet(client, nodes, gpus)
	if err := Submit(t.Context(), client, launches); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "all GPUs have users", func() bool { return f.Started() == nodes*gpus })
	ended := 0
	endUntil := func(count int) {
		harness.Eventually(t, "launches end", func() bool {
			for ended < count && f.EndOldest(0) {
				ended++
			}
			return ended == count
		})
	}
	endUntil(launches / 4)
	s.Controllers[0].Kill()
	endUntil(launches)
	var all []*api.Launch
	harness.Eventually(t, "the controller knows that all have ended", func() bool {
		reply, err := client.Launches.List(t.Context(), &api.ListRequest{Ended: true})
		if err != nil {
			t.Fatal(err)
		}
		all = reply.GetLaunches()
		for _, each := range all {
			if each.GetPhase() != "ended" {
				return false
			}
		}
		return true
	})
	for _, each := range all {
		if each.GetResult() != "completed" {
			t.Errorf("launch %s is %s: %s", each.GetName(), each.GetResult(), each.GetReason())
		}
	}
	if len(all) != launches || f.Started() != launches {
		t.Errorf("%d launches are known and %d were started, of %d", len(all), f.Started(), launches)
	}
	for _, fault := range f.Faults() {
		t.Error(fault)
	}
	t.Logf("the longest time between two users of a GPU: %v", longest(f.Reuses()))
}

// longest returns the longest of some times.
func longest(times []time.Duration) (most time.Duration) {
	for _, each := range times {
		most = max(most, each)
	}
	return most
}
