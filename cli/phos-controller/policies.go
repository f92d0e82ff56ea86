package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/compose"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
)

// schedulerConfig names policies as the flags of "pos_cli sim run" do.
type schedulerConfig struct {
	Order     string `toml:"order" comment:"as --order of pos_cli sim run: fifo, priority, las, drf, ..."`
	Placement string `toml:"placement" comment:"first-free or best-fit"`
	Admission string `toml:"admission"`
	Backfill  string `toml:"backfill" comment:"none, easy, conservative"`
	Victims   string `toml:"victims"`
	// PreemptivePriority is as the flag of pos_cli sim run.
	PreemptivePriority bool               `toml:"preemptive_priority,omitempty" comment:"with order priority: urgent launches take GPUs of others, which are saved"`
	Quantum            Duration           `toml:"quantum,omitempty"`
	Age                Duration           `toml:"age,omitempty" comment:"what waits for longer is first"`
	Caps               map[string]int     `toml:"caps,omitempty" comment:"the most GPUs that an account may have"`
	Weights            map[string]float64 `toml:"weights,omitempty"`
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
	names := compose.Names{
		Order: s.Order, Placement: s.Placement, Admission: s.Admission, Backfill: s.Backfill, Victims: s.Victims,
	}
	err = names.SetOrder(&p, order.Parameters{
		Aging: time.Duration(s.Age), Weights: s.Weights, Preemptive: s.PreemptivePriority,
	})
	if err == nil {
		err = names.SetOthers(&p, place.Parameters{})
	}
	if wrong, ok := errors.AsType[*compose.Error](err); ok {
		err = fmt.Errorf("scheduler.%s: %w", wrong.Part, wrong)
	}
	return p, err
}

// text says which policies these are.
func (s schedulerConfig) text() string {
	return fmt.Sprintf("order %s, placement %s, admission %s, backfill %s", s.Order, s.Placement, s.Admission, s.Backfill)
}
