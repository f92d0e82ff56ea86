package bench

import (
	"fmt"
	"runtime"
	"testing"
)

// peer is another simulator of schedulers, with its published or measured speed.
type peer struct {
	name       string
	perSecond  float64 // jobs
	scale, how string
}

// peers are from their papers, repositories and logs. If no figure is published, it is from a run
// of the available code.
var peers = []peer{
	{"Blox", 28, "128 GPUs, 4,000 jobs", "Python and gRPC; measured. Its paper's figures take 8 h each"},
	{"Gavel", 20, "108 GPUs, 5,000 jobs", "Python; the README's log of a run at low load"},
	{"Pollux", 0.1, "64 GPUs, 160 jobs", "Python; up to 30 min a run, of its own policy"},
	{"Tiresias", 3000, "2,048 GPUs, small traces", "Python; measured with 300 to 400 jobs"},
	{"FGD on open-simulator", 15, "6,212 GPUs, 8,152 tasks", "Go, with the code of kube-scheduler; 10 min an experiment"},
	{"Slurm simulator (BSC)", 1, "3,000 nodes", "C; 1,000 jobs in 1,000 s as published first, 2.6 times that later"},
	{"Kueue's performance test", 43, "60,000 workloads", "Go; real controllers, 1,405 s"},
}

// measurePeers compares the speed of others with ours. Their figures are from other machines and
// traces, so only orders of magnitude are comparable.
func measurePeers(t *testing.T, b *bench) (rows []row) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	jobs := trace(t, b.jobs)
	for _, d := range disciplines() {
		took, _ := simulate(t, d, clusterNodes, jobs)
		rows = append(rows, row{
			name: "phos, " + d.name, value: float64(jobs.Len()) / took.Seconds(), unit: "/s",
			note: fmt.Sprintf("jobs a second: %d GPUs, %d jobs", clusterNodes*gpusPerNode, jobs.Len()),
		})
	}
	for _, p := range peers {
		rows = append(rows, row{name: p.name, value: p.perSecond, unit: "/s", note: p.scale + "; " + p.how})
	}
	return rows
}
