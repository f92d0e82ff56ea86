package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
	"github.com/phos-gpu/phos/scheduler/victims"
	"github.com/phos-gpu/phos/scheduler/workload"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
	"github.com/phos-gpu/phos/tests/harness"
)

// sizesOfSim are the sizes of the jobs that pos_cli sim run is timed with.
const sizesOfSim = "1:70,2:10,4:15,8:5"

// simulated is a simulation to time, as pos_cli sim run does it by default.
type simulated struct {
	order string
	nodes int // of eight GPUs
	load  float64
	share int     // of all jobs, one of so many
	most  float64 // seconds that all of them may take on one core
}

// measureSim times simulations on one core by their CPU time, and relates the memory of one to the
// files that it writes.
func measureSim(t *testing.T, b *bench) (rows []row) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, s := range []simulated{
		{"las", 1250, 0.9, 1, 1},
		{"las", 1250, 1.2, 1, 5},
		{"las", 12, 1.2, 1, 10},
		{"optimus", 12, 0.9, 10, 5},
		{"gavel", 12, 0.9, 10, 5},
	} {
		jobs := s.jobs(t, b.jobs/s.share)
		took, r := simulate(t, s.discipline(t), s.nodes, jobs)
		rows = append(rows, row{
			name:  fmt.Sprintf("%d jobs at load %.1f on %d GPUs: %s", jobs.Len(), s.load, s.nodes*gpusPerNode, s.order),
			value: took.Seconds(), unit: "s", most: s.most,
			note: fmt.Sprintf("%d preemptions, %.0f jobs/s", r.Summary.Preemptions, float64(jobs.Len())/took.Seconds()),
		})
	}
	return append(rows, memoryOfFiles(t, b.jobs))
}

// jobs generates the jobs.
func (s simulated) jobs(t *testing.T, n int) *packed.Jobs {
	t.Helper()
	sizes, err := generator.ParseMix(sizesOfSim)
	if err != nil {
		t.Fatal(err)
	}
	made, err := generator.Make("poisson", generator.Parameters{
		Jobs: n, GPUs: s.nodes * gpusPerNode, Load: s.load, Sizes: sizes,
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.Jobs
}

// discipline returns the scheduler to time.
func (s simulated) discipline(t *testing.T) discipline {
	t.Helper()
	return discipline{name: s.order, policies: func() scheduler.Policies { return s.policies(t) }}
}

// policies returns the policies of an order.
func (s simulated) policies(t *testing.T) scheduler.Policies {
	t.Helper()
	p := scheduler.Policies{Place: place.FirstFree{}, Preempt: victims.Tail{}, Quantum: shortQuantum}
	if s.order == "las" {
		p.Order = order.LAS{}
		return p
	}
	p.Order, p.Round, p.PromptStarts = order.FIFO{}, time.Minute, true
	var err error
	table := throughput.NewTable().Common(throughput.Common{Types: []string{""}})
	if p.Allocate, p.Speeds, err = elastic.ByName(s.order, elastic.Parameters{Table: table}); err != nil {
		t.Fatal(err)
	}
	return p
}

// memoryOfFiles relates the peak memory of pos_cli sim run, with its trace and charts, to what the
// files that it writes need.
func memoryOfFiles(t *testing.T, n int) row {
	t.Helper()
	s, bytes := simulated{order: "las", nodes: clusterNodes, load: 0.9}, int64(0)
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "jobs.csv")
	file, err := os.Create(trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(workload.Write(file, s.jobs(t, n)), file.Close()); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(
		filepath.Join(harness.Bin(), "pos_cli"), "sim", "run", "--jobs", trace, "--nodes", strconv.Itoa(s.nodes),
		"--gpus-per-node", strconv.Itoa(gpusPerNode), "--order", s.order, "--out", dir,
	)
	resetPeak(t) // a process begins with the peak of the one that started it
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	used := run.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	if own := int64(peak(t)); own >= used {
		t.Fatalf("the benchmark itself uses %d MB, so the peak of pos_cli, at most %d MB, is unknown", own/1e6, used/1e6)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return row{
		name: fmt.Sprintf("%d jobs: memory / files", n), value: float64(used) / float64(bytes), unit: "x", most: 2,
		note: fmt.Sprintf("%d MB and %d MB", used/1e6, bytes/1e6),
	}
}
