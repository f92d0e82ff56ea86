package throughput

import (
	"slices"
	"strings"
	"sync"
)

// Table holds models by name. It is safe for concurrent use.
type Table struct {
	models map[string]*Model

	mu       sync.Mutex
	goodputs map[goodputKey]float64
}

// goodputKey identifies a cached goodput.
type goodputKey struct {
	model  *Model
	spread bool
	gpus   int
}

// Unknown is the name of the model that represents models that are not in the table.
const Unknown = "unknown"

// NewTable returns a table of the built-in models and the given ones, which replace built-in ones
// of the same name. A model named Unknown replaces the default. A model without Rates gets those of
// the built-in model of its name, or of Unknown.
func NewTable(models ...*Model) *Table {
	t := &Table{models: map[string]*Model{}, goodputs: map[goodputKey]float64{}}
	for _, m := range builtin() {
		t.models[m.Name] = m
	}
	for _, m := range models {
		own := *m
		own.given = true
		if own.Rates == nil {
			own.Rates = t.Model(m.Name).Rates
		}
		t.models[strings.ToLower(m.Name)] = &own
	}
	return t
}

// Model returns a model by its name, ignoring case, or the one named Unknown.
func (t *Table) Model(name string) *Model {
	if m := t.models[strings.ToLower(name)]; m != nil {
		return m
	}
	return t.models[Unknown]
}

// Models returns the names, sorted.
func (t *Table) Models() []string {
	names := make([]string, 0, len(t.models))
	for name := range t.models {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Goodput returns a model's goodput, which is cached.
func (t *Table) Goodput(m *Model, nodes, gpus int) float64 {
	q := goodputKey{m, nodes > 1, gpus}
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.goodputs[q]
	if !ok {
		g, _ = m.Goodput(nodes, gpus)
		t.goodputs[q] = g
	}
	return g
}
