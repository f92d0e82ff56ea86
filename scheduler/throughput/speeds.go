package throughput

import (
	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// Speeds tells how fast jobs run by a Table: what a simulation believes. It is a scheduler.Speeds.
//
// A job's length is what it takes on the GPUs that it asks for: as many as it asks for, on as few
// nodes as they fit on, of the type that it asks for or else of the reference type. Its GPUs
// exchange what they have computed after every step, so the slowest of them sets the pace.
type Speeds struct {
	table *Table

	// adaptive: every job uses the batch that is best on what it has, as Pollux makes it do.
	adaptive bool
}

// NewSpeeds is how fast jobs run that keep their batch.
func NewSpeeds(t *Table) *Speeds { return &Speeds{table: t} }

// NewAdaptiveSpeeds is how fast jobs run whose batch is fitted to what they have. On what a job
// asks for it is at least 1, too.
func NewAdaptiveSpeeds(t *Table) *Speeds { return &Speeds{table: t, adaptive: true} }

// Speed is how fast a job runs on given GPUs; 1 is as fast as on those that it asks for.
func (s *Speeds) Speed(j *scheduler.Job, on cluster.Placement, nodes []cluster.Node) float64 {
	if len(on) == 0 {
		return 0
	}
	m, spread, gpus := s.table.Model(j.Model()), on.Nodes(), len(on)
	rate := m.Rate
	if s.adaptive {
		rate = func(nodes, gpus int) float64 { return s.table.Goodput(m, nodes, gpus) }
	}
	return rate(spread, gpus) * slowestRate(m, on, nodes) / s.requested(m, j, nodes)
}

// requested is the throughput on what a job asks for.
func (s *Speeds) requested(m *Model, j *scheduler.Job, nodes []cluster.Node) float64 {
	fewest := fewestNodes(j, nodes)
	rate := m.Rate(fewest, j.RequestedGPUs())
	if j.OwnGPUType() == "" {
		return rate
	}
	return rate * m.On(j.OwnGPUType(), fewest, j.RequestedGPUs())
}

// slowestRate is the rate of the slowest type in a placement.
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

// fewestNodes is how many nodes a job needs at least, on nodes of the largest size that it can use.
func fewestNodes(j *scheduler.Job, nodes []cluster.Node) int {
	largest := 1
	for i := range nodes {
		if j.OwnGPUType() == "" || j.OwnGPUType() == nodes[i].GPUType {
			largest = max(largest, nodes[i].GPUs)
		}
	}
	return Nodes(j.RequestedGPUs(), largest)
}

// Nodes is how many nodes of a size so many GPUs are, at least.
func Nodes(gpus, size int) int { return (gpus + size - 1) / size }
