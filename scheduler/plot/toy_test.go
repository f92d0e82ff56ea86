package plot

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// toy plays synthetic jobs on nodes of 8 GPUs, by arrival or shortest first: a result like a real
// one, without the engine. Every tenth job is preempted half-way for a minute.
func toy(jobs, nodes int, load float64, short bool) *sim.Result {
	trace, err := generator.Make(
		"poisson",
		generator.Parameters{Seed: 1, Jobs: jobs, GPUs: 8 * nodes, Load: load, Sizes: generator.MultiGPU()},
	)
	if err != nil {
		panic(err)
	}
	r := &sim.Result{}
	free := make([][]int32, nodes)
	for n := range nodes {
		r.Nodes = append(r.Nodes, cluster.Node{ID: cluster.NodeID(n), GPUs: 8})
		free[n] = []int32{0, 1, 2, 3, 4, 5, 6, 7}
	}
	var waiting []cluster.Job
	var running []sim.Run
	var results []sim.JobResult
	var samples []sim.Sample
	busy, next := 0, 0
	for now := time.Duration(0); next < trace.Jobs.Len() || len(waiting)+len(running) > 0; {
		switch {
		case len(running) > 0 && (next == trace.Jobs.Len() || running[0].To <= trace.Jobs.Submit(next)):
			now = running[0].To
			for _, gpu := range running[0].On {
				free[gpu.Node] = append(free[gpu.Node], gpu.Index)
				slices.Sort(free[gpu.Node])
				busy--
			}
			r.Runs = append(r.Runs, running[0])
			running = running[1:]
		default:
			now = trace.Jobs.Submit(next)
			waiting = append(waiting, trace.Jobs.At(next))
			next++
		}
		if short {
			slices.SortStableFunc(
				waiting,
				func(a, b cluster.Job) int { return int(a.Length/time.Second) - int(b.Length/time.Second) },
			)
		}
		for len(waiting) > 0 {
			j := waiting[0]
			n := slices.IndexFunc(free, func(f []int32) bool { return len(f) >= j.GPUs })
			if n < 0 {
				break
			}
			waiting = waiting[1:]
			run := sim.Run{Job: j.ID, From: now, To: now + j.Length}
			for range j.GPUs {
				run.On = append(run.On, cluster.GPU{Node: cluster.NodeID(n), Index: free[n][0]})
				free[n] = free[n][1:]
				busy++
			}
			running = append(running, run)
			slices.SortStableFunc(running, func(a, b sim.Run) int { return int((a.To - b.To) / time.Millisecond) })
			results = append(results, sim.JobResult{
				ID: j.ID, User: "u", GPUs: j.GPUs, Submit: j.Submit, Start: now, Started: true, Finish: run.To, Outcome: sim.Done,
			})
		}
		samples = append(samples, sim.Sample{
			At: now, Running: len(running), Waiting: len(waiting), BusyMilli: int64(busy) * 1000, Capacity: 8 * nodes,
		})
	}
	slices.SortFunc(results, func(a, b sim.JobResult) int { return int(a.ID - b.ID) })
	r.Jobs, r.Timeline = sim.ResultsOf(results...), sim.TimelineOf(samples...)
	slices.SortStableFunc(r.Runs, func(a, b sim.Run) int { return int((a.From - b.From) / time.Millisecond) })
	return r
}

// sample is an album of two toys.
func sample(jobs int) Album {
	return Album{
		Title: "toys",
		Runs:  []Run{{"fifo", toy(jobs, 4, 0.95, false)}, {"sjf", toy(jobs, 4, 0.95, true)}},
		Curves: []Curve{
			{
				"fifo",
				[]Point{{0.5, 16 * time.Hour}, {0.7, 18 * time.Hour}, {0.9, 30 * time.Hour}, {1.1, 90 * time.Hour}},
			},
			{
				"las",
				[]Point{{0.5, 16 * time.Hour}, {0.7, 17 * time.Hour}, {0.9, 21 * time.Hour}, {1.1, 40 * time.Hour}},
			},
			{
				"srtf",
				[]Point{{0.5, 15 * time.Hour}, {0.7, 16 * time.Hour}, {0.9, 18 * time.Hour}, {1.1, 25 * time.Hour}},
			},
		},
		LoadLabel: "load (share of all GPUs)",
	}
}
