package backfill

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestProfile compares gaps in a profile with a search over every time.
func TestProfile(t *testing.T) {
	const end = 120
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		nodes := []cluster.Node{{GPUs: 20}}
		var runs []schedulertest.Job
		for i := range 12 {
			due := time.Duration(1 + r.IntN(80))
			runs = append(runs, schedulertest.Job{
				Job: cluster.Job{
					ID:       cluster.JobID(i),
					GPUs:     1,
					Estimate: due,
				}, Phase: scheduler.Running, On: cluster.Placement{{Index: int32(i)}},
			})
		}
		runs = append(runs, schedulertest.Job{Job: cluster.Job{ID: 100, GPUs: 1}, Phase: scheduler.Waiting})
		view := schedulertest.NewView(0, nodes, runs...)
		sample := view.Job(100)
		p := (&book{free: view.Free()}).newProfile(sample)
		for range 1 + r.IntN(20) {
			from := r.IntN(end - 1)
			p.add(time.Duration(from), time.Duration(from+1+r.IntN(end-from)), 1+r.IntN(4))
		}
		enough := func(at, gpus int) bool {
			reserved, _, _ := p.reserved.levelAt(time.Duration(at))
			return view.Free().ExpectedFree(sample, time.Duration(at))-reserved >= gpus
		}
		gap := func(from, gpus int) (long int) {
			for from+long <= end && enough(from+long, gpus) {
				long++
			}
			return long
		}
		for range 100 {
			now, gpus, long := r.IntN(end), 1+r.IntN(20), 1+r.IntN(30)
			want := now
			for want <= end && gap(want, gpus) < min(long, end+1-want) {
				want++
			}
			got := p.earliest(time.Duration(now), scheduler.Forever, gpus, time.Duration(long))
			if int(got) != want && (want <= end || got != scheduler.Forever) {
				t.Fatalf("seed %d: from %d on %d GPUs for %d at %d, not %d", seed, now, gpus, long, got, want)
			}
			free := gap(now, gpus)
			if got := p.runtimeLimit(time.Duration(now), gpus); int(got) != free &&
				(now+free <= end || got != scheduler.Forever) {
				t.Fatalf("seed %d: from %d on %d GPUs for %d, not %d", seed, now, gpus, got, free)
			}
		}
	}
}
