package throughput

import (
	"slices"
	"strings"
	"sync"
)

// Table knows models by their names. Many simulations may ask it at once.
type Table struct {
	models map[string]*Model

	mu       sync.Mutex
	goodputs map[goodputKey]float64
}

// goodputKey is what a goodput was worked out for.
type goodputKey struct {
	model  *Model
	spread bool
	gpus   int
}

// Unknown is the name of the model that stands for those that a table does not have.
const Unknown = "unknown"

// NewTable is a table of our own models and of those given, which count where both have one. A
// model of the name Unknown takes the place of ours. One that says nothing of types of GPU gets
// what our table says of it, or of unknown models.
func NewTable(models ...*Model) *Table {
	t := &Table{models: map[string]*Model{}, goodputs: map[goodputKey]float64{}}
	for _, m := range builtin() {
		t.models[m.Name] = m
	}
	for _, m := range models {
		own := *m
		if own.Rates == nil {
			own.Rates = t.Model(m.Name).Rates
		}
		t.models[strings.ToLower(m.Name)] = &own
	}
	return t
}

// Model finds a model by its name, in any case of letters; the one for unknown models where there
// is none.
func (t *Table) Model(name string) *Model {
	if m := t.models[strings.ToLower(name)]; m != nil {
		return m
	}
	return t.models[Unknown]
}

// Models are the names, in order.
func (t *Table) Models() []string {
	names := make([]string, 0, len(t.models))
	for name := range t.models {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Goodput is a model's goodput, which is worked out once.
func (t *Table) Goodput(m *Model, nodes, gpus int) float64 {
	q := goodputKey{m, nodes > 1, gpus}
	t.mu.Lock()
	defer t.mu.Unlock()
	g, known := t.goodputs[q]
	if !known {
		g, _ = m.Goodput(nodes, gpus)
		t.goodputs[q] = g
	}
	return g
}
