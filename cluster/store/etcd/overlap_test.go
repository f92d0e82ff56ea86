package etcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/cluster/store/storetest"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// reign is one leadership, by the clock of the machine: the time at which the leader knew of it,
// and the last one at which it believed in it.
type reign struct {
	epoch     store.Epoch
	name      string
	from, end time.Duration
}

// TestLeadershipsDoNotOverlap holds up and cuts the connections of candidates, and lets leaders
// resign. No two ever lead at the same time.
func TestLeadershipsDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := inProcess(t, servertest.Config(t))
	working, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var reigns []reign
	led := make(chan string, 1000)
	proxies := map[string]*storetest.Proxy{}
	var all sync.WaitGroup
	for i := range 3 {
		socket := filepath.Join(servertest.Dir(t), "proxy.sock")
		name := fmt.Sprint(i)
		proxies[name] = storetest.NewProxy(t, socket, s.Endpoint()[len("unix://"):])
		candidate := open(t, etcd.Config{
			Endpoints: []string{"unix://" + socket}, Lease: shortLease, Timeout: shortLease / 4,
		})
		all.Go(func() {
			for working.Err() == nil {
				if r, ok := reignOf(working, candidate, name, led); ok {
					mu.Lock()
					reigns = append(reigns, r)
					mu.Unlock()
				}
			}
		})
	}
	for round := range rounds.Of(2, 30) {
		leader := <-led
		if round%2 == 0 { // otherwise the leader resigns
			proxies[leader].Hold(true)
			next := <-led
			proxies[leader].Hold(false)
			proxies[next].Cut()
		}
	}
	stop()
	all.Wait()
	checkReigns(t, reigns)
}

// reignOf leads once, until the leadership is lost or for a short time.
func reignOf(ctx context.Context, s *etcd.Store, name string, led chan<- string) (reign, bool) {
	leads, err := s.Campaign(ctx, name)
	if err != nil {
		return reign{}, false
	}
	r := reign{epoch: leads.Epoch(), name: name, from: boottime.Now()}
	led <- name
	select {
	case <-leads.Lost():
		r.end = leads.Until()
	case <-time.After(rand.N(shortLease / 2)):
		r.end = min(boottime.Now(), leads.Until())
		_ = leads.Resign(ctx) // it ends by itself otherwise
	case <-ctx.Done():
		r.end = boottime.Now()
	}
	return r, true
}

func checkReigns(t *testing.T, reigns []reign) {
	t.Helper()
	slices.SortFunc(reigns, func(a, b reign) int { return int(a.epoch - b.epoch) })
	for i := range reigns {
		t.Logf("epoch %d: %s from %v to %v", reigns[i].epoch, reigns[i].name, reigns[i].from, reigns[i].end)
		if i > 0 && reigns[i].from < reigns[i-1].end {
			t.Errorf("%s leads from %v, and %s until %v", reigns[i].name, reigns[i].from, reigns[i-1].name, reigns[i-1].end)
		}
	}
}
