package throughput

import "math"

// Model is how fast one kind of training runs, by the GPUs that it has: Pollux's model of a
// data-parallel training (OSDI 2021, §3.2), or what somebody has measured of it.
type Model struct {
	Name string

	// Step is what a step takes on the reference type of GPU.
	Step StepTime

	// Batch is the batch size that the job was submitted with, in samples; MaxBatch the largest with
	// which it still learns, and Local how many samples fit on one GPU at once.
	Batch, MaxBatch, Local float64

	// Noise is the gradient's noise scale, in samples: how many one step could use. A model whose
	// Noise is 0 keeps its batch.
	Noise float64

	// Rates are how fast types of GPU are, by their names; the reference type has 1, and so has one
	// that is not named.
	Rates map[string]float64

	// measured takes the place of Step where throughput was measured.
	measured *measured
}

// StepTime are the seven parameters of the time that a step takes. All times are in seconds.
type StepTime struct {
	AlphaC, BetaC float64 // computing: AlphaC, and BetaC for each sample on the GPU
	AlphaN, BetaN float64 // exchanging gradients between nodes: AlphaN, and BetaN for each GPU beyond the second
	AlphaR, BetaR float64 // the same inside of one node
	Gamma         float64 // how far the two overlap: not at all at 1, entirely at infinity
}

// Seconds is how long a step takes on so many nodes and GPUs with so many samples on each GPU, in
// pieces of which each fits.
func (s StepTime) Seconds(nodes, gpus int, samples float64, pieces int) float64 {
	piece := s.AlphaC + s.BetaC*samples/float64(pieces)
	exchange := s.exchange(nodes, gpus)
	return float64(pieces-1)*piece + math.Pow(math.Pow(piece, s.Gamma)+math.Pow(exchange, s.Gamma), 1/s.Gamma)
}

func (s StepTime) exchange(nodes, gpus int) float64 {
	switch {
	case gpus < 2:
		return 0
	case nodes > 1:
		return s.AlphaN + s.BetaN*float64(gpus-2)
	}
	return s.AlphaR + s.BetaR*float64(gpus-2)
}

// Throughput is how many samples a second are computed with a batch of so many.
func (m *Model) Throughput(nodes, gpus int, batch float64) float64 {
	samples := batch / float64(gpus)
	pieces := max(1, int(math.Ceil(samples/m.Local-1e-9)))
	return batch / m.Step.Seconds(nodes, gpus, samples, pieces)
}

// Efficiency is how much of a sample is worth having in a batch of so many: 1 in the batch that the
// job was submitted with, less in a larger one.
func (m *Model) Efficiency(batch float64) float64 {
	return (m.Noise + m.Batch) / (m.Noise + batch)
}

// Rate is the throughput with the batch that the job was submitted with.
func (m *Model) Rate(nodes, gpus int) float64 {
	if m.measured != nil {
		return m.measured.rate("", nodes, gpus)
	}
	return m.Throughput(nodes, gpus, m.Batch)
}

// batches is how many batch sizes are tried, at equal ratios.
const batches = 50

// Goodput is the throughput with the best batch, counted in samples that are worth as much as those
// of the job's own batch; and that batch.
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

// On is how fast a type of GPU is against the reference type, for so many of them.
func (m *Model) On(gpuType string, nodes, gpus int) float64 {
	if m.measured != nil {
		if faster, known := m.measured.ratio(gpuType, nodes, gpus); known {
			return faster
		}
	}
	if rate, known := m.Rates[gpuType]; known {
		return rate
	}
	return 1
}
