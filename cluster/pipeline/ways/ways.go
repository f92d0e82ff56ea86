package ways

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
)

// Way is a manner to go on after a change.
type Way struct {
	// Name is for people and for --way.
	Name string
	// Plan returns the next plan.
	Plan func(plan *pipeline.Plan, change replan.Change) (*replan.Result, error)
}

// All are the ways that are known. Of equally good ones the first is chosen.
var All = []Way{
	{"recover", replan.Recover},
	{"balance", replan.Balance},
}

// Find returns the way of a name.
func Find(name string) (Way, error) {
	i := slices.IndexFunc(All, func(w Way) bool { return w.Name == name })
	if i < 0 {
		return Way{}, fmt.Errorf("wanted %s", strings.Join(Names(), " or "))
	}
	return All[i], nil
}

// Names returns the names of all ways.
func Names() (names []string) {
	for _, each := range All {
		names = append(names, each.Name)
	}
	return names
}

// Costs say what a way costs, and for how long its plan will be used.
type Costs struct {
	Pause          time.Duration // to plan and to create new communication groups
	BytesPerSecond int64         // of a node's link, in each direction
	Horizon        time.Duration // until the next change
}

// Usual are costs where none are known: a link of 200 Gbit/s, and a change every ten minutes.
var Usual = Costs{Pause: 2 * time.Second, BytesPerSecond: 25e9, Horizon: 10 * time.Minute}

// MaxHorizon is the longest time that plans are compared for.
const MaxHorizon = 1000 * time.Hour

// Candidate is what a way leads to.
type Candidate struct {
	Way    string
	Result *replan.Result
	// Copying is how long layers are copied.
	Copying time.Duration
	// Thousandths of iterations until the next change.
	Thousandths int64
}

// Iterations returns how many iterations there are until the next change.
func (c *Candidate) Iterations() float64 { return float64(c.Thousandths) / 1000 }

// margin is by how many percent more iterations another way must have than the first one. That
// moves the fewest bytes and keeps the most copies, and the costs are only assumed.
const margin = 1

// Choose returns what ways lead to, the chosen one first. Without a horizon that is what the first
// of them leads to. An error means that none has a plan.
func Choose(ways []Way, plan *pipeline.Plan, change replan.Change, costs Costs) (found []Candidate, err error) {
	for _, way := range ways {
		r, why := way.Plan(plan, change)
		if why == nil {
			found = append(found, costs.judge(way, r))
		} else if err == nil {
			err = why
		}
	}
	if len(found) == 0 {
		return nil, err
	}
	best := 0
	for i, each := range found {
		if each.Thousandths-found[0].Thousandths > found[0].Thousandths/100*margin && each.Thousandths > found[best].Thousandths {
			best = i
		}
	}
	found[0], found[best] = found[best], found[0]
	return found, nil
}

// judge says what a plan is worth. All nodes must agree: it has whole numbers, and Copying one
// division of others.
func (c Costs) judge(way Way, r *replan.Result) Candidate {
	found := Candidate{Way: way.Name, Result: r, Copying: r.Copying(c.BytesPerSecond)}
	left := min(c.Horizon, MaxHorizon) - min(c.Pause, MaxHorizon) - found.Copying
	found.Thousandths = max(0, int64(left)) * 1000 / max(1, r.Plan.IterationTime())
	return found
}
