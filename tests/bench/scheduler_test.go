package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// The cluster and the jobs of all rows: nodes of eight GPUs, and enough jobs to keep the cluster
// busy. Jobs have all sizes and the lengths of Blox's workload.
const (
	clusterNodes, gpusPerNode = 1250, 8
	sizesOfJobs               = "1:60,2:10,4:12,8:10,16:4,32:3,64:1"
	loadOfJobs                = 1.0
	quantum                   = 300 * time.Second
	shortQuantum              = time.Minute // the default
)

// discipline is a scheduler to time.
type discipline struct {
	name     string
	policies func() scheduler.Policies
	most     float64 // seconds that 100,000 jobs may take on one core
	fewer    int     // divides the number of jobs if all arrive at once, because preemption takes its time then
}

func disciplines() []discipline {
	return []discipline{
		{"FIFO", func() scheduler.Policies {
			return scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}}
		}, 2, 1},
		las(quantum),
		{"FIFO, EASY backfill", func() scheduler.Policies {
			return scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}, Backfill: backfill.NewEASY()}
		}, 10, 1},
	}
}

// conservative reserves a start time for every waiting job.
func conservative() discipline {
	return discipline{"FIFO, conservative backfill", func() scheduler.Policies {
		return scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}, Backfill: backfill.NewConservative(0)}
	}, 10, 1}
}

func las(quantum time.Duration) discipline {
	return discipline{fmt.Sprintf("LAS, quantum %.0f s", quantum.Seconds()), func() scheduler.Policies {
		return scheduler.Policies{Order: order.LAS{}, Place: place.BestFit{}, Preempt: victims.Tail{}, Quantum: quantum}
	}, 10, 5}
}

// measureScheduler times simulations on one core by their CPU time, so other load on the machine
// does not count.
func measureScheduler(t *testing.T, b *bench) (rows []row) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	jobs := trace(t, b.jobs)
	for _, d := range append(disciplines(), conservative(), las(shortQuantum)) {
		took, r := simulate(t, d, clusterNodes, jobs)
		rows = append(rows, row{
			name: fmt.Sprintf("%d jobs: %s", jobs.Len(), d.name), value: took.Seconds(), unit: "s", most: d.most,
			note: fmt.Sprintf("%d preemptions, %.0f jobs/s", r.Summary.Preemptions, float64(jobs.Len())/took.Seconds()),
		})
	}
	for _, d := range disciplines() {
		rows = append(rows, longQueue(t, d, b.jobs/d.fewer))
	}
	return append(rows, liveDecisions(t, b), manyJobs(t, 10*b.jobs))
}

// trace generates jobs.
func trace(t *testing.T, n int) *packed.Jobs {
	t.Helper()
	sizes, err := generator.ParseMix(sizesOfJobs)
	if err != nil {
		t.Fatal(err)
	}
	made, err := generator.Make("poisson", generator.Parameters{
		Seed: 1, Jobs: n, GPUs: clusterNodes * gpusPerNode, Load: loadOfJobs, Sizes: sizes, EstimateError: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.Jobs
}

// simulate runs a simulation, and returns its CPU time.
func simulate(t *testing.T, d discipline, clusterNodes int, jobs *packed.Jobs) (time.Duration, *sim.Result) {
	t.Helper()
	nodes := make([]cluster.Node, clusterNodes)
	for i := range nodes {
		nodes[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpusPerNode}
	}
	debug.FreeOSMemory()
	before := cpuTime(t)
	r, err := sim.Play(context.Background(), jobs, sim.Options{Nodes: nodes, Policies: d.policies()})
	took := cpuTime(t) - before
	if err != nil || r.Summary.N != jobs.Len() {
		t.Fatalf("%s: %v", d.name, err)
	}
	return took, r
}

// cpuTime returns the CPU time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// longQueue compares the cost of an event for n waiting jobs and for ten times as many. All arrive
// at once, at a tenth of the cluster. The logarithm grows by a quarter; the rest is due to cache
// misses.
func longQueue(t *testing.T, d discipline, n int) row {
	t.Helper()
	perEvent := func(n int) float64 {
		jobs := trace(t, n)
		jobs = jobs.Map(func(_ int, j *cluster.Job) { j.Submit = 0 })
		took, r := simulate(t, d, clusterNodes/10, jobs)
		return took.Seconds() / float64(2*n+2*r.Summary.Preemptions)
	}
	short, long := perEvent(n/10), perEvent(n)
	return row{
		name: "ten times the queue: " + d.name, value: long / short, unit: "x", most: 2,
		note: fmt.Sprintf(
			"%.1f us for each start and end where %d jobs wait, %.1f us where %d do",
			short*1e6,
			n/10,
			long*1e6,
			n,
		),
	}
}

// manyJobs measures the peak memory of a trace, with the trace itself and its result.
func manyJobs(t *testing.T, n int) row {
	t.Helper()
	resetPeak(t)
	took, _ := simulate(t, disciplines()[0], clusterNodes, trace(t, n))
	return row{
		name: fmt.Sprintf("%d jobs: memory", n), value: float64(peak(t)) / (1 << 30), unit: "GiB", most: 2,
		note: fmt.Sprintf("FIFO, in %.1f s", took.Seconds()),
	}
}

// resetPeak frees unused memory, and begins to measure the peak memory of this process anew.
func resetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// peak returns the peak memory of this process since the last reset, in bytes.
func peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
