package throughput

import (
	"maps"
	"math"
	"slices"
	"strings"
)

var (
	required         = math.NaN() // in place of the default of an optional column
	parameterColumns = []string{
		"model",
		"batch",
		"alpha_c",
		"beta_c",
		"alpha_n",
		"beta_n",
		"alpha_r",
		"beta_r",
		"gamma",
	}
)

// minPositive is the least allowed value of positive parameters.
const minPositive = 1e-12

// measurement reads a row of measured throughput.
func (t *tableReader) measurement() {
	name, m := t.name()
	gpuType := t.text("gpu_type")
	if m == nil {
		m = &Model{
			Name:     name,
			Batch:    1,
			MaxBatch: 1,
			Local:    1,
			measured: &measured{reference: gpuType, curves: map[layout][]point{}},
		}
		t.models = append(t.models, m)
	}
	nodes, p := t.count("nodes", 1), point{t.count("gpus", 0), t.number("rate", minPositive, required)}
	if nodes > p.gpus {
		t.bad("nodes", "at most the number of GPUs")
	}
	if t.err == nil && !m.measured.add(layout{gpuType, nodes > 1}, p) {
		t.bad("gpus", "a number that the model does not have yet on this type")
	}
}

// parameters reads a row of parameters.
func (t *tableReader) parameters() {
	name, before := t.name()
	if before != nil {
		t.bad("model", "a new one: an earlier line has it")
	}
	m := &Model{Name: name, Batch: t.number("batch", 1, required)}
	m.MaxBatch = t.number("max_batch", m.Batch, m.Batch)
	m.Local = t.number("local_batch", 1, m.MaxBatch)
	m.Noise = t.number("noise", 0, 0)
	m.Step = StepTime{
		AlphaC: t.number("alpha_c", minPositive, required), BetaC: t.number("beta_c", 0, required),
		AlphaN: t.number("alpha_n", 0, required), BetaN: t.number("beta_n", 0, required),
		AlphaR: t.number("alpha_r", 0, required), BetaR: t.number("beta_r", 0, required),
		Gamma: t.number("gamma", 1, required),
	}
	for _, column := range slices.Sorted(maps.Keys(t.columns)) {
		if gpuType, ok := strings.CutPrefix(column, "on:"); ok && t.text(column) != "" {
			if m.Rates == nil {
				m.Rates = map[string]float64{}
			}
			m.Rates[gpuType] = t.number(column, minPositive, required)
		}
	}
	t.models = append(t.models, m)
}
