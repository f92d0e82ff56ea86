package generator

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Tenants returns four teams of two organisations that share a cluster: many small experiments, a
// few large trainings that take days, sweeps of medium jobs, and an urgent team that fine-tunes.
func Tenants() []Tenant {
	return []Tenant{
		{Name: "vision/try", Weight: 50, Lengths: Exponential(20 * time.Minute), Sizes: Mix{{0.5, 30}, {1, 70}}},
		{Name: "vision/sweep", Weight: 30, Lengths: BloxLaw(), Sizes: MultiGPU()},
		{
			Name:    "language/train",
			Weight:  5,
			Lengths: Uniform(12*time.Hour, 72*time.Hour),
			Sizes:   Mix{{8, 60}, {16, 30}, {32, 10}},
		},
		{
			Name:     "language/tune",
			Weight:   15,
			Lengths:  Exponential(3 * time.Hour),
			Sizes:    Mix{{2, 50}, {4, 50}},
			Priority: 1,
		},
	}
}

// Own reports whether the tenant has lengths and sizes of its own.
func (t Tenant) Own() bool { return t.Lengths.draw != nil && t.Sizes != nil }

// ParseTenants parses names with weights, as a:50,b:30,c. The names of Tenants keep their lengths
// and sizes; all others have those of the trace.
func ParseTenants(text string) ([]Tenant, error) {
	known := map[string]Tenant{}
	for _, t := range Tenants() {
		known[t.Name] = t
	}
	var tenants []Tenant
	names, err := ParseChoice(text)
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	for _, n := range names {
		if n.Name == "" {
			return nil, fmt.Errorf("tenants: %q has one without a name", text)
		}
		t := known[n.Name]
		t.Name, t.Weight = n.Name, n.Weight
		tenants = append(tenants, t)
	}
	return tenants, nil
}

// mixed is the generator "tenants": each job belongs to a random tenant.
func mixed(p Parameters) generator {
	tenants := p.Tenants
	if len(tenants) == 0 {
		tenants = Tenants()
	}
	tenants = append([]Tenant(nil), tenants...)
	work, sum := 0.0, 0.0
	weights := make([]float64, len(tenants))
	for i := range tenants {
		t := &tenants[i]
		if t.Lengths.draw == nil {
			t.Lengths = p.Lengths
		}
		if t.Sizes == nil {
			t.Sizes = p.Sizes
		}
		weights[i] = t.Weight
		work += t.Weight * t.Lengths.mean * t.Sizes.mean()
		sum += t.Weight
	}
	owners, lengths, sizes := newStream(p.Seed, forTenants), newStream(p.Seed, forLengths), newStream(p.Seed, forSizes)
	return generator{
		work:   work / sum,
		arrive: poisson(newStream(p.Seed, forArrivals)),
		fill: func(j *cluster.Job) {
			t := &tenants[pick(owners, weights)]
			j.User, j.Priority, j.Length = t.Name, t.Priority, t.Lengths.next(lengths)
			setSize(j, t.Sizes.next(sizes))
		},
	}
}
