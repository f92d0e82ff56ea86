package throughput

import (
	"cmp"
	"math"
)

// Model is how fast one kind of training runs on given GPUs: Pollux's model of data-parallel
// training (OSDI 2021, §3.2), or measurements.
type Model struct {
	Name string

	// Step is the time of a step on the reference type of GPU.
	Step StepTime

	// Batch is the batch size that the job was submitted with, in samples; MaxBatch the largest with
	// which it still learns, and Local how many samples fit on one GPU at once.
	Batch, MaxBatch, Local float64

	// Noise is the gradient's noise scale, in samples: how many one step could use. A model whose
	// Noise is 0 keeps its batch.
	Noise float64

	// Rates are the speeds of GPU types; 1 for the reference type and for types without an entry.
	Rates map[string]float64

	// measured replaces Step if throughput was measured.
	measured *measured

	given        bool               // not built in
	factors      map[string]float64 // by type; they replace measurements, too
	measuredRate float64            // under a common model, the speed of what was measured; 0 is 1
}

// StepTime are the seven parameters of the time of a step. All times are in seconds.
type StepTime struct {
	AlphaC, BetaC float64 // computing: AlphaC, and BetaC for each sample on the GPU
	AlphaN, BetaN float64 // exchanging gradients between nodes: AlphaN, and BetaN for each GPU beyond the second
	AlphaR, BetaR float64 // the same inside one node
	Gamma         float64 // how far the two overlap: not at all at 1, entirely at infinity
}

// Seconds returns the time of a step on so many nodes and GPUs with so many samples on each GPU, in
// pieces that fit.
func (s StepTime) Seconds(nodes, gpus int, samples float64, pieces int) float64 {
	piece := s.AlphaC + s.BetaC*samples/float64(pieces)
	exchange := s.exchange(nodes, gpus)
	return float64(pieces-1)*piece + math.Pow(math.Pow(piece, s.Gamma)+math.Pow(exchange, s.Gamma), 1/s.Gamma)
}

// exchange returns the time to exchange gradients.
func (s StepTime) exchange(nodes, gpus int) float64 {
	switch {
	case gpus < 2:
		return 0
	case nodes > 1:
		return s.AlphaN + s.BetaN*float64(gpus-2)
	}
	return s.AlphaR + s.BetaR*float64(gpus-2)
}

// Throughput returns the samples per second with a batch size.
func (m *Model) Throughput(nodes, gpus int, batch float64) float64 {
	samples := batch / float64(gpus)
	pieces := max(1, int(math.Ceil(samples/m.Local-1e-9)))
	return batch / m.Step.Seconds(nodes, gpus, samples, pieces)
}

// Efficiency returns how much a sample contributes in a batch of the given size: 1 for the job's
// own batch size, less for larger ones.
func (m *Model) Efficiency(batch float64) float64 {
	return (m.Noise + m.Batch) / (m.Noise + batch)
}

// Rate returns the throughput with the job's own batch size.
func (m *Model) Rate(nodes, gpus int) float64 {
	if m.measured != nil {
		return m.measured.rate("", nodes, gpus)
	}
	return m.Throughput(nodes, gpus, m.Batch)
}

// batches is how many batch sizes are tried, at equal ratios.
const batches = 50

// Goodput returns the throughput with the best batch size, in samples worth as much as those of the
// job's own batch; and that batch size.
func (m *Model) Goodput(nodes, gpus int) (goodput, batch float64) {
	goodput, batch = m.Rate(nodes, gpus), m.Batch
	if m.measured != nil || m.Noise == 0 {
		return goodput, batch
	}
	ratio := math.Pow(m.MaxBatch/m.Batch, 1.0/(batches-1))
	for try, i := m.Batch, 0; i < batches; i++ {
		if g := m.Throughput(nodes, gpus, try) * m.Efficiency(try); g > goodput {
			goodput, batch = g, try
		}
		try *= ratio
	}
	return goodput, batch
}

// On returns how fast so many GPUs of a type are relative to the reference type.
func (m *Model) On(gpuType string, nodes, gpus int) float64 {
	if factor, ok := m.factors[gpuType]; ok {
		return factor
	}
	if m.measured != nil {
		if faster, ok := m.measured.ratio(gpuType, nodes, gpus); ok {
			return faster * cmp.Or(m.measuredRate, 1)
		}
	}
	if rate, ok := m.Rates[gpuType]; ok {
		return rate
	}
	return 1
}
