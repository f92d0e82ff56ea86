package throughput

import (
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Speeds implements scheduler.Speeds by a Table, for simulations.
//
// A job's length is its runtime on the GPUs that it asks for: as many as it asks for, on as few
// nodes as possible, of the type that it asks for or else of the reference type. Its GPUs exchange
// data after every step, so the slowest one determines the speed.
//
// Each simulation needs its own: a Speeds remembers throughputs and is not safe for concurrent use.
type Speeds struct {
	table *Table
	rates map[rateKey]float64

	// adaptive: every job uses the batch size that is best on its GPUs, as Pollux makes it do.
	adaptive bool
}

// rateKey identifies a throughput.
type rateKey struct {
	model       *Model
	nodes, gpus int
}

// NewSpeeds returns the speeds of jobs that keep their batch size.
func NewSpeeds(t *Table) *Speeds { return &Speeds{table: t, rates: map[rateKey]float64{}} }

// NewAdaptiveSpeeds returns the speeds of jobs whose batch size adapts to their GPUs. On the GPUs
// that a job asks for it is at least 1.
func NewAdaptiveSpeeds(t *Table) *Speeds {
	return &Speeds{table: t, rates: map[rateKey]float64{}, adaptive: true}
}

// Speed returns how fast a job runs on given GPUs; 1 is the speed on those that it asks for.
func (s *Speeds) Speed(j *scheduler.Job, on cluster.Placement, nodes []cluster.Node) float64 {
	if len(on) == 0 {
		return 0
	}
	m, spread, gpus := s.table.Model(j.Model()), on.Nodes(), len(on)
	var rate float64
	if s.adaptive {
		rate = s.table.Goodput(m, spread, gpus)
	} else {
		rate = s.rate(m, spread, gpus)
	}
	return rate * slowestRate(m, on, nodes) / s.requested(m, j, nodes)
}

// rate returns a model's throughput with the job's own batch size.
func (s *Speeds) rate(m *Model, nodes, gpus int) float64 {
	key := rateKey{m, nodes, gpus}
	rate, ok := s.rates[key]
	if !ok {
		rate = m.Rate(nodes, gpus)
		s.rates[key] = rate
	}
	return rate
}

// requested returns the throughput on what a job asks for.
func (s *Speeds) requested(m *Model, j *scheduler.Job, nodes []cluster.Node) float64 {
	fewest := fewestNodes(j, nodes)
	rate := s.rate(m, fewest, j.RequestedGPUs())
	if j.OwnGPUType() == "" {
		return rate
	}
	return rate * m.On(j.OwnGPUType(), fewest, j.RequestedGPUs())
}

// slowestRate returns the rate of the slowest type in a placement.
func slowestRate(m *Model, on cluster.Placement, nodes []cluster.Node) float64 {
	spread, rate, last := on.Nodes(), 0.0, "-"
	for i, gpu := range on {
		gpuType := nodes[gpu.Node].GPUType
		if i > 0 && gpuType == last {
			continue
		}
		if r := m.On(gpuType, spread, len(on)); i == 0 || r < rate {
			rate = r
		}
		last = gpuType
	}
	return rate
}

// fewestNodes returns how many nodes of the largest usable size a job needs at least.
func fewestNodes(j *scheduler.Job, nodes []cluster.Node) int {
	largest := 1
	for i := range nodes {
		if j.OwnGPUType() == "" || j.OwnGPUType() == nodes[i].GPUType {
			largest = max(largest, nodes[i].GPUs)
		}
	}
	return Nodes(j.RequestedGPUs(), largest)
}

// Nodes returns how many nodes of a size are needed for so many GPUs.
func Nodes(gpus, size int) int { return (gpus + size - 1) / size }
