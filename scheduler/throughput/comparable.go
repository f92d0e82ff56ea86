package throughput

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Common describes one model of speed for all policies. A job of length L takes L on the GPUs that
// it asks for, whichever policy gives them. Other numbers of GPUs and other types scale that time
// by the job's model in a Table.
type Common struct {
	// Types are the GPU types of the cluster.
	Types []string

	// Reference is the type on which jobs that ask for no type have their length; "" is the type that
	// is 1 in the table.
	Reference string

	// Factors are speeds of types, 1 being that of the lengths. They replace the table's.
	Factors map[string]float64

	// Placed slows jobs on more nodes than they need, as the table says. Otherwise only models that
	// were read from a file do so: the built-in ones are too rough to charge for it.
	Placed bool
}

// Linear returns a table in which all jobs are as fast as they have GPUs, of whatever type, on
// however many nodes.
func Linear() *Table {
	m := &Model{
		Name: Unknown, Batch: 1, MaxBatch: 1, Local: 1, Rates: map[string]float64{},
		Step: StepTime{BetaC: 1, Gamma: 1},
	}
	return &Table{models: map[string]*Model{Unknown: m}, goodputs: map[goodputKey]float64{}}
}

// Common returns the table under a common model: batch sizes are fixed, and the speeds of types are
// relative to the reference type.
func (t *Table) Common(c Common) *Table {
	own := &Table{models: make(map[string]*Model, len(t.models)), goodputs: map[goodputKey]float64{}}
	for name, m := range t.models {
		own.models[name] = m.common(c)
	}
	return own
}

// common returns the model under a common model.
func (m *Model) common(c Common) *Model {
	own := *m
	own.Noise, own.MaxBatch = 0, m.Batch
	if !c.Placed && !m.given {
		own.Step.AlphaN, own.Step.BetaN = m.Step.AlphaR, m.Step.BetaR
	}
	base := cmp.Or(m.typeRate(c.Reference), 1)
	own.Rates = map[string]float64{}
	for _, gpuType := range c.Types {
		if rate := m.typeRate(gpuType); rate > 0 {
			own.Rates[gpuType] = rate / base
		}
	}
	if m.measured != nil {
		own.measured, own.measuredRate = m.measured.named(append(c.Types[:len(c.Types):len(c.Types)], c.Reference)).relativeTo(c.Reference)
		if own.measuredRate == 0 {
			own.measuredRate = cmp.Or(m.typeRate(m.measured.reference), 1) / base
		}
	}
	maps.Copy(own.Rates, c.Factors)
	own.factors = c.Factors
	return &own
}

// relativeTo returns measurements whose reference is a type, and 1; if the type was not measured,
// the measurements as they are, and 0.
func (m *measured) relativeTo(gpuType string) (*measured, float64) {
	if m.curve(gpuType, 1) == nil {
		return m, 0
	}
	return &measured{gpuType, m.curves}, 1
}

// named returns the measurements with the given names of types, where those measured differ in case
// only.
func (m *measured) named(types []string) *measured {
	own := &measured{m.reference, maps.Clone(m.curves)}
	for _, at := range slices.SortedFunc(maps.Keys(m.curves), byType) {
		for _, gpuType := range types {
			as := layout{gpuType, at.spread}
			if _, exact := own.curves[as]; !exact && strings.EqualFold(gpuType, at.gpuType) {
				own.curves[as] = m.curves[at]
			}
		}
	}
	return own
}

func byType(a, b layout) int { return cmp.Compare(a.gpuType, b.gpuType) }

// typeRate returns the speed of a type, whose name may differ in case; 0 if it is unknown.
func (m *Model) typeRate(gpuType string) float64 {
	if rate, ok := m.Rates[gpuType]; ok {
		return rate
	}
	for _, name := range slices.Sorted(maps.Keys(m.Rates)) {
		if strings.EqualFold(name, gpuType) {
			return m.Rates[name]
		}
	}
	return 0
}

// Knows reports whether the speed of a model on a type is known, measured or from Rates.
func (m *Model) Knows(gpuType string) bool {
	return m.typeRate(gpuType) > 0 || m.measured != nil && m.measured.curve(gpuType, 1) != nil
}

// Has reports whether the table has a model of that name, ignoring case.
func (t *Table) Has(name string) bool { return t.models[strings.ToLower(name)] != nil }

// Given reports whether a model was passed to NewTable and is not built in.
func (m *Model) Given() bool { return m.given }
