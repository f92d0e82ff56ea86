package goodput

import (
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/replay"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Model is what was published of the training of a model on up to 30 nodes with an A40 GPU each.
type Model struct {
	name string
	// throughput is in millionths of a sample a second, on 30 nodes and less. 0: it does not fit.
	throughput []int64
	samples    int64         // of a step
	pause      time.Duration // for a re-plan
	restart    time.Duration // from a checkpoint, by the system that the authors compared with
	checkpoint time.Duration
	// state and sums are the bytes of a pipeline's layers, and of its gradients.
	state, sums float64
}

// The throughputs and times are those of the simulator behind the paper on Oobleck (SOSP 2023).
var models = []Model{
	{
		name: "BERT-Large",
		throughput: []int64{
			368250000, 362220000, 328350000, 327780000, 329140000, 307210000, 304450000, 278530000,
			285840000, 260310000, 261680000, 243560000, 228050000, 209210000, 214800000, 192300000,
		},
		samples: 8192, pause: 2 * time.Second,
		restart: 76 * time.Second, checkpoint: 15800 * time.Millisecond, state: 340e6 * 16, sums: 340e6 * 4,
	},
	{
		name: "GPT-3 6.7B",
		throughput: []int64{
			5507784, 5324191, 5140599, 4957006, 4773413, 4808826, 4329925, 4185194,
			3947199, 4010856, 4154430, 3712331, 3593276, 3283996, 3530909, 0,
		},
		samples: 1024, pause: 10 * time.Second,
		restart: 701 * time.Second, checkpoint: 120 * time.Second, state: 6.7e9 * 16, sums: 6.7e9 * 4,
	},
}

// GPT67 returns the largest of the models.
func GPT67() *Model { return &models[len(models)-1] }

// TenMinutes is the published time between two failures, where that is about ten minutes.
const TenMinutes = 601200 * time.Millisecond

// OneByOne returns a trace in which one node after the other fails, until half of 30 are left.
func OneByOne(every time.Duration) (events []replay.Event) {
	for i := range 15 {
		events = append(events, replay.Event{At: time.Duration(i+1) * every, Node: cluster.NodeID(29 - i)})
	}
	return events
}

// start returns the run of a trace, before it is said how it goes on after a failure.
func (m *Model) start(events []replay.Event) replay.Run {
	t := replay.Throughput{}
	for i, samples := range m.throughput {
		t[30-i] = samples
	}
	return replay.Run{Throughput: t, Trace: events, Ready: 45 * time.Second, SamplesPerStep: m.samples}
}

// Replanned returns a run as Oobleck was published: with a constant pause, after which the step
// begins again.
func (m *Model) Replanned(events []replay.Event) *replay.Run {
	run := m.start(events)
	run.Pause = m.pause
	return &run
}

// Phos returns a run as phos.pipeline goes on, with a pause to which copying is added.
func (m *Model) Phos(events []replay.Event, pause time.Duration) *replay.Run {
	run := m.start(events)
	run.Pause, run.PipelineNodes, run.Backup = m.with(pause), pipelineNodes, m.backup()
	return &run
}

// Ideal returns a run whose recoveries cost nothing.
func (m *Model) Ideal(events []replay.Event) *replay.Run {
	run := m.start(events)
	run.PipelineNodes, run.Backup = pipelineNodes, time.Nanosecond
	return &run
}

// What was measured of phos.pipeline: from a kill to the first new microbatch with eight ranks on
// two CPUs (./build.sh bench training), without copying.
const measuredPause = 2800 * time.Millisecond

const (
	// pipelineNodes share the state of a model: the smallest pipeline of GPT-3 6.7B.
	pipelineNodes = 4
	// link is that of the published machines in bytes a second, and measured the rate at which Python
	// sends sums.
	link, measured = 25e9, 2.5e9
	// pace is how many times as long as a backup takes it is until the next one.
	pace = 20
)

// with returns a pause with the copying of a node's layers.
func (m *Model) with(pause time.Duration) time.Duration {
	return pause + seconds(m.state/pipelineNodes/link)
}

// backup is how long a pipeline computes until others have that, too.
func (m *Model) backup() time.Duration {
	return max(time.Second, seconds(pace*m.sums/pipelineNodes/measured))
}

func seconds(s float64) time.Duration { return time.Duration(s*1000) * time.Millisecond }
