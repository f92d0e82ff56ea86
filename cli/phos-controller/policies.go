package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// schedulerConfig names policies as the flags of "pos_cli sim run" do.
type schedulerConfig struct {
	Order     string             `toml:"order" comment:"as --order of pos_cli sim run: fifo, priority, las, drf, ..."`
	Placement string             `toml:"placement" comment:"first-free or best-fit"`
	Admission string             `toml:"admission"`
	Backfill  string             `toml:"backfill" comment:"none, easy, conservative"`
	Victims   string             `toml:"victims"`
	Quantum   Duration           `toml:"quantum,omitempty"`
	Age       Duration           `toml:"age,omitempty" comment:"what waits for longer is first"`
	Caps      map[string]int     `toml:"caps,omitempty" comment:"the most GPUs that an account may have"`
	Weights   map[string]float64 `toml:"weights,omitempty"`
}

// defaultScheduler has urgent launches first, and lets short ones overtake if that delays nothing.
var defaultScheduler = schedulerConfig{
	Order: "priority", Placement: "best-fit", Admission: "all", Backfill: "easy", Victims: "tail",
}

// placements are those that can place replicas.
var placements = []string{"first-free", "best-fit"}

// policies returns the policies for one engine.
func (s schedulerConfig) policies() (p scheduler.Policies, err error) {
	if slices.Contains(elastic.Names(), s.Order) {
		return p, fmt.Errorf("scheduler.order %s changes the size of jobs, which this version does not do to launches", s.Order)
	}
	if !slices.Contains(placements, s.Placement) {
		return p, fmt.Errorf("scheduler.placement %q: want one of %s", s.Placement, strings.Join(placements, ", "))
	}
	p = scheduler.Policies{Quantum: time.Duration(s.Quantum), Caps: s.Caps}
	if p.Order, err = order.ByName(s.Order, order.Parameters{Aging: time.Duration(s.Age), Weights: s.Weights}); err != nil {
		return p, fmt.Errorf("scheduler.order: %w", err)
	}
	if p.Place, err = place.ByName(s.Placement, place.Parameters{}); err != nil {
		return p, fmt.Errorf("scheduler.placement: %w", err)
	}
	if p.Admit, err = admit.ByName(s.Admission); err != nil {
		return p, fmt.Errorf("scheduler.admission: %w", err)
	}
	if p.Backfill, err = backfill.ByName(s.Backfill); err != nil {
		return p, fmt.Errorf("scheduler.backfill: %w", err)
	}
	if p.Preempt, err = victims.ByName(s.Victims, nil); err != nil {
		return p, fmt.Errorf("scheduler.victims: %w", err)
	}
	return p, nil
}

// text says which policies these are.
func (s schedulerConfig) text() string {
	return fmt.Sprintf("order %s, placement %s, admission %s, backfill %s", s.Order, s.Placement, s.Admission, s.Backfill)
}
