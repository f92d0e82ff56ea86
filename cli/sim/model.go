package sim

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/costs"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// The models of how fast jobs run. All but ownModel are the same for every policy.
const (
	commonModel   = "common"
	placedModel   = "placed"
	linearModel   = "linear"
	measuredModel = "measured"
	ownModel      = "own"
)

func models() []string {
	return []string{commonModel, placedModel, linearModel, measuredModel, ownModel}
}

// modelSettings are the flags of the model. They are written to summary.json.
type modelSettings struct {
	Model       string `json:"model,omitempty"`
	Reference   string `json:"reference_type,omitempty"`
	TypeSpeeds  shares `json:"type_speeds,omitempty"`
	NoGrow      bool   `json:"no_grow,omitempty"`
	restartCost time.Duration
}

// modelFlags registers the flags of the model.
func (s *settings) modelFlags(flags *flag.FlagSet) {
	flags.StringVar(
		&s.Model,
		"model",
		commonModel,
		"`MODEL` of how fast jobs run, the same under every order: "+names(models()[:len(models())-1])+
			"; or own, each order's own (see above)",
	)
	flags.StringVar(
		&s.Reference,
		"reference",
		"",
		"`TYPE` of GPU on which jobs without gpu_type last duration_s; default: the cluster's, if it has one type, else "+
			defaultReference,
	)
	flags.Var(
		&s.TypeSpeeds,
		"type-speeds",
		"speeds of GPU types, 1 being that of duration_s, as `TYPE=SPEED,...`; default: a built-in table, or --models",
	)
	flags.BoolVar(&s.NoGrow, "no-grow", false, "elastic jobs get at most the GPUs that they ask for")
	flags.Var(
		secondsFlag{&s.restartCost},
		"restart-cost",
		"`SECONDS` that every job loads for when it starts again; --cost has details; default: no time",
	)
}

// defaultReference is the type that is 1 in the built-in table.
const defaultReference = "V100"

// speedModel is how fast jobs run in a simulation.
type speedModel struct {
	table   *throughput.Table // nil under ownModel
	types   []string          // of the cluster's GPUs
	elastic int               // jobs that may run on other numbers of GPUs
	unknown int               // those of them that scale like throughput.Unknown
	missing string            // a type without a speed that a job may get, and the job
}

// newSpeedModel returns the model for some jobs on some nodes.
func (s *settings) newSpeedModel(jobs *packed.Jobs, nodes []cluster.Node, given *throughput.Table) *speedModel {
	m := &speedModel{types: gpuTypes(nodes)}
	switch s.Model {
	case ownModel:
		return m
	case linearModel:
		m.table = throughput.Linear()
		return m
	}
	base := given
	if base == nil {
		base = throughput.NewTable()
	}
	reference := cmp.Or(s.Reference, defaultReference)
	if len(m.types) == 1 && s.Reference == "" && s.TypeSpeeds == nil {
		reference = m.types[0]
	}
	m.table = base.Common(throughput.Common{
		Types: m.types, Reference: reference, Factors: s.TypeSpeeds, Placed: s.Model != commonModel,
	})
	if unknown := base.Model(throughput.Unknown); s.Reference != "" && !unknown.Knows(s.Reference) {
		m.missing = fmt.Sprintf("no speed of --reference %s is known; the table has V100 and others", words.Clip(s.Reference))
	}
	reached := map[string]bool{}
	for _, j := range jobs.All() {
		if j.MinGPUs < j.MaxGPUs {
			m.elastic++
			if !base.Has(j.Model) {
				m.unknown++
			}
		}
		if key := j.Model + "\x00" + j.GPUType; j.GPUType == "" && len(m.types) > 1 && !reached[key] {
			reached[key] = true
			m.check(&j)
		}
	}
	return m
}

// checkTypeSpeeds returns an error for a speed of a type that the cluster does not have.
func (s *settings) checkTypeSpeeds(nodes []cluster.Node) error {
	types := gpuTypes(nodes)
	for _, gpuType := range slices.Sorted(maps.Keys(s.TypeSpeeds)) {
		if !slices.Contains(types, gpuType) {
			here := names(slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name == "" }))
			return usage(fmt.Errorf(
				"--type-speeds names %s, and the cluster has no such GPUs; it has %s", gpuType, cmp.Or(here, "no named types"),
			))
		}
	}
	return nil
}

// check notes a type of the cluster that a job may get and that has no speed.
func (m *speedModel) check(j *cluster.Job) {
	model := m.table.Model(j.Model)
	for _, gpuType := range m.types {
		if m.missing == "" && !model.Knows(gpuType) {
			m.missing = fmt.Sprintf(
				"job %d may run on %s, of which no speed is known; name it, as in --type-speeds %s, "+
					"or take all types for equally fast with --model linear",
				j.ID, cmp.Or("GPUs of type "+gpuType, gpuType), typeExample(m.types),
			)
			if gpuType == "" {
				m.missing = fmt.Sprintf(
					"job %d may run on nodes whose gpu_type is not named; name it in --nodes-file, "+
						"or take all types for equally fast with --model linear", j.ID,
				)
			}
		}
	}
}

// typeExample returns an example of --type-speeds for some types.
func typeExample(types []string) string {
	var parts []string
	for i, gpuType := range types {
		if gpuType != "" {
			parts = append(parts, fmt.Sprintf("%s=%g", gpuType, float64(1+i)))
		}
	}
	return strings.Join(parts, ",")
}

// gpuTypes returns the types of GPUs of a cluster, sorted.
func gpuTypes(nodes []cluster.Node) (types []string) {
	for i := range nodes {
		if nodes[i].GPUs > 0 && !slices.Contains(types, nodes[i].GPUType) {
			types = append(types, nodes[i].GPUType)
		}
	}
	slices.Sort(types)
	return types
}

// refuse returns why an order cannot be played under the model; nil if it can.
func (s *settings) refuse(jobs *packed.Jobs, t tables) error {
	wrong := func(why string) error {
		return usage(fmt.Errorf("order %s cannot be simulated under --model %s: %s", s.Order, s.Model, why))
	}
	if t.speeds.missing != "" {
		return wrong(t.speeds.missing)
	}
	if s.Model != measuredModel {
		return nil
	}
	for _, j := range jobs.All() {
		resized := j.MaxGPUs > 0 && j.MinGPUs < j.MaxGPUs && (s.resizes() || s.Caps != nil)
		if measured := t.speeds.table.Has(j.Model) && t.speeds.table.Model(j.Model).Given(); resized && !measured {
			return wrong(fmt.Sprintf(
				"it may give job %d %d to %d GPUs, and --models lacks its model %q; add it, or take --model %s",
				j.ID, j.MinGPUs, j.MaxGPUs, words.ClipTo(j.Model, 24), commonModel,
			))
		}
	}
	return nil
}

// resizes reports whether the order gives elastic jobs other numbers of GPUs than they ask for.
func (s *settings) resizes() bool { return s.Order == "optimus" || s.Order == "pollux" }

// apply sets the speeds of a scheduler under a common model. Without elastic jobs and with one type
// of GPU every job has the speed 1, and they are left out.
func (s *settings) apply(p *scheduler.Policies, t tables) {
	if t.speeds.table == nil || s.Model == linearModel {
		return
	}
	if isElastic(s.Order) || s.Caps != nil || len(t.speeds.types) > 1 || s.Reference != "" || s.TypeSpeeds != nil ||
		s.Model != commonModel || t.models != nil {
		p.Speeds = throughput.NewSpeeds(t.speeds.table)
	}
}

// limit returns the jobs as the model lets them be: with --no-grow, none has more GPUs than it asks
// for.
func (s *settings) limit(jobs *packed.Jobs) *packed.Jobs {
	if !s.NoGrow {
		return jobs
	}
	return jobs.Map(func(_ int, j *cluster.Job) {
		if j.MaxGPUs > j.GPUs {
			j.MaxGPUs = j.GPUs
		}
	})
}

// restartTable returns the costs by --restart-cost; nil if there are none.
func (s *settings) restartTable() *costs.Table {
	if s.restartCost == 0 {
		return nil
	}
	return costs.New(costs.Row{Load: s.restartCost})
}

// elasticParameters returns the parameters of an elastic policy: under a common model it decides by
// that model's speeds and costs.
func (s *settings) elasticParameters(p *scheduler.Policies, t tables) elastic.Parameters {
	all := elastic.Parameters{Table: t.models, Seed: s.Seed, Weights: s.Weights, Pack: s.Pack}
	if t.speeds.table != nil {
		all.Table, all.Costs = t.speeds.table, p.Costs
		if p.Costs == nil {
			all.Costs = costs.New().For("")
		}
	}
	return all
}

// modelView says what the model is. Scripts read it: fields may be added, never renamed.
type modelView struct {
	Name string `json:"name"`
	// Same is whether all rows have the same model.
	Same bool `json:"same_for_all"`
	// Text describes it.
	Text string `json:"description"`
}

// view describes the model of a simulation; nil for another simulator's profile.
func (s *settings) view(t tables) *modelView {
	if s.Profile != native || t.speeds == nil {
		return nil
	}
	v := &modelView{Name: s.Model, Same: s.Model != ownModel}
	var parts []string
	if s.Model == ownModel {
		parts = append(parts, "each order has its own, as in its paper; results of two orders do not compare")
	} else {
		parts = append(parts, "the same for all orders", "a job takes its duration on the GPUs that it asks for")
	}
	switch s.Model {
	case linearModel:
		parts = append(parts, "speed is proportional to the number of GPUs, all types are alike")
	case commonModel, placedModel, measuredModel:
		parts = append(parts, s.describeScaling(t)...)
	}
	switch {
	case s.Cost != "":
		parts = append(parts, "stops and starts take what --cost says")
	case s.restartCost > 0:
		parts = append(parts, fmt.Sprintf("a job that starts again loads for %v", s.restartCost))
	default:
		parts = append(parts, "stops and starts take no time")
	}
	v.Text = strings.Join(parts, "; ")
	return v
}

// describeScaling says how other GPUs than requested change a job's speed.
func (s *settings) describeScaling(t tables) (parts []string) {
	text := "no job is elastic"
	if n := t.speeds.elastic; n > 0 {
		text = "elastic jobs (" + humanize.Count(n, "job", "jobs") + ") scale by their model"
	}
	if n := t.speeds.unknown; n > 0 {
		text += fmt.Sprintf(" (%s like model %s)", humanize.Count(n, "job", "jobs"), throughput.Unknown)
	}
	if s.NoGrow {
		text += ", and get at most the GPUs that they ask for"
	}
	parts = append(parts, text)
	if len(t.speeds.types) > 1 || s.Reference != "" || s.TypeSpeeds != nil {
		model, speeds := t.speeds.table.Model(throughput.Unknown), []string{}
		for _, gpuType := range t.speeds.types {
			if gpuType != "" {
				speeds = append(speeds, fmt.Sprintf("%s %.3g", gpuType, model.On(gpuType, 1, 1)))
			}
		}
		parts = append(parts,
			"GPU types are as fast as "+strings.Join(speeds, ", ")+" for unknown models ("+s.lengthsOn()+")")
	}
	if s.Model != commonModel {
		parts = append(parts, "more nodes than needed are slower")
	}
	return parts
}

// lengthsOn says on which type jobs last as long as the trace says.
func (s *settings) lengthsOn() string {
	if s.TypeSpeeds != nil {
		return "1 is that of duration_s"
	}
	return "duration_s is on " + cmp.Or(s.Reference, defaultReference)
}

// String returns the name and the description.
func (v *modelView) String() string { return v.Name + ": " + v.Text }

// notes returns the notes of a page.
func (v *modelView) notes() []string {
	if v == nil {
		return nil
	}
	return []string{"Model " + v.String()}
}
