package instance

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/template"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Templates returns a plan without pipelines, with templates of all sizes that its nodes and faults
// require. progress is told of each; it may be nil.
func Templates(
	ctx context.Context,
	profile *pipeline.Profile,
	spec pipeline.Spec,
	progress template.Progress,
) (*pipeline.Plan, error) {
	search := template.Search{
		Profile: profile, GPUsPerNode: spec.GPUsPerNode, GPUMemoryBytes: spec.GPUMemoryBytes, Progress: progress,
	}
	smallest, largest, err := search.Sizes(ctx, spec.Nodes, spec.Faults)
	if err != nil {
		return nil, err
	}
	templates, err := search.Templates(ctx, smallest, largest)
	if err != nil {
		return nil, err
	}
	return &pipeline.Plan{Profile: profile, Spec: spec, Templates: templates}, nil
}

// Make returns a plan for nodes numbered from 0. Smaller pipelines get lower numbers. progress is
// told of the templates; it may be nil.
func Make(
	ctx context.Context,
	profile *pipeline.Profile,
	spec pipeline.Spec,
	progress template.Progress,
) (*pipeline.Plan, error) {
	if spec.Microbatches < 1 || spec.Microbatches > pipeline.MaxMicrobatches {
		return nil, &pipeline.InputError{
			Where: "microbatches", Problem: fmt.Sprint(spec.Microbatches),
			Want: fmt.Sprintf("1 to %d, over all pipelines", pipeline.MaxMicrobatches),
		}
	}
	plan, err := Templates(ctx, profile, spec, progress)
	if err != nil {
		return nil, err
	}
	used, best := Combine(ctx, plan, spec.Nodes)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if best == nil {
		return nil, nearestError(ctx, plan)
	}
	var nodes []cluster.NodeID
	for node := range spec.Nodes {
		nodes = append(nodes, cluster.NodeID(node))
	}
	plan = Place(plan, best, nodes[:used])
	plan.Spare, plan.AtLeast = nodes[used:], best.AtLeast
	if best.Split == nil {
		err = Split(plan)
	}
	return plan, err
}

// Place returns a plan with the profile, spec and templates of another one, and the pipelines of a
// combination on nodes in order, smaller pipelines first. If the combination has no split, the plan
// has none either.
func Place(like *pipeline.Plan, c *Combination, nodes []cluster.NodeID) *pipeline.Plan {
	plan := &pipeline.Plan{Profile: like.Profile, Spec: like.Spec, Templates: like.Templates}
	for i, n := range c.Counts {
		for range n {
			size := like.Templates[i].Nodes
			each := pipeline.Pipeline{Template: size, Nodes: nodes[:size:size]}
			if c.Split != nil {
				each.Microbatches = c.Split[i]
			}
			plan.Pipelines = append(plan.Pipelines, each)
			nodes = nodes[size:]
		}
	}
	return plan
}

// Combine returns the best combination of a plan's templates for a number of nodes, and how many of
// the nodes it uses: as many as any number of pipelines can. Equal pipelines get equal parts of the
// batch if any combination allows that. best is nil if there are too few nodes or microbatches.
func Combine(ctx context.Context, plan *pipeline.Plan, nodes int) (used int, best *Combination) {
	p := &Problem{
		Smallest: plan.Smallest(), Nodes: nodes, Pipelines: plan.Spec.Faults + 1, Microbatches: plan.Spec.Microbatches,
		AllReduce: plan.Profile.AllReduce,
	}
	for _, t := range plan.Templates {
		p.Lines = append(p.Lines, t.Line())
	}
	for ; p.Nodes >= p.Pipelines*p.Smallest; p.Nodes-- {
		if fewest, most := p.counts(); fewest <= most {
			if best = p.Solve(ctx); best == nil {
				p.Uneven = true
				best = p.Solve(ctx)
			}
			return p.Nodes, best
		}
	}
	return 0, nil
}

// nearestError returns an error with the nearest batch that could be split.
func nearestError(ctx context.Context, plan *pipeline.Plan) error {
	e := &pipeline.InfeasibleError{
		Problem: fmt.Sprintf(
			"%s cannot be split over %s with at least %s, one for each",
			pipeline.Count(plan.Spec.Microbatches, "microbatch"),
			pipeline.Count(plan.Spec.Nodes, "node"),
			pipeline.Count(plan.Spec.Faults+1, "pipeline"),
		),
	}
	if batch, _, best := Nearest(ctx, plan, plan.Spec.Nodes); best != nil {
		e.Instead = fmt.Sprintf("the nearest number that can is %d", batch)
	}
	return e
}

// Nearest returns the best combination for the batch nearest to the plan's that has a microbatch
// for each pipeline. It is nil if there are too few nodes.
func Nearest(ctx context.Context, plan *pipeline.Plan, nodes int) (batch, used int, best *Combination) {
	trial := *plan
	for away := range 2*nodes + 1 {
		for _, batch := range []int{plan.Spec.Microbatches - away, plan.Spec.Microbatches + away} {
			if trial.Spec.Microbatches = batch; batch < 1 {
				continue
			}
			if used, best := Combine(ctx, &trial, nodes); best != nil {
				return batch, used, best
			}
		}
	}
	return 0, 0, nil
}

// Split divides the batch over a plan's pipelines. Equal pipelines get equally many microbatches if
// possible; otherwise training continues and some get one more than others.
func Split(plan *pipeline.Plan) error {
	if plan.Spec.Microbatches < len(plan.Pipelines) {
		return &pipeline.InfeasibleError{
			Problem: fmt.Sprintf("%s, and only %s", pipeline.Count(len(plan.Pipelines), "pipeline"),
				pipeline.Count(plan.Spec.Microbatches, "microbatch")),
		}
	}
	var kinds, each []Share
	kindOf := map[int]int{}
	for _, p := range plan.Pipelines {
		line := plan.Template(p.Template).Line()
		if _, ok := kindOf[p.Template]; !ok {
			kindOf[p.Template] = len(kinds)
			kinds = append(kinds, Share{Line: line})
		}
		kinds[kindOf[p.Template]].Count++
		each = append(each, Share{line, 1})
	}
	split, _, err := Distribute(kinds, plan.Spec.Microbatches)
	if err == nil {
		for i, p := range plan.Pipelines {
			plan.Pipelines[i].Microbatches = split[kindOf[p.Template]]
		}
		return nil
	}
	split, _, err = Distribute(each, plan.Spec.Microbatches)
	for i := range split {
		plan.Pipelines[i].Microbatches = split[i]
	}
	for size := range kindOf {
		balance(plan.Pipelines, size)
	}
	return err
}

// balance evens out the parts of pipelines of one size that differ by more than one: the split only
// bounds the slowest pipeline of all. None gets more than the most had.
func balance(pipelines []pipeline.Pipeline, size int) {
	var parts []*int
	all, least, most := 0, pipeline.MaxMicrobatches, 0
	for i := range pipelines {
		if part := &pipelines[i].Microbatches; pipelines[i].Template == size {
			parts, all, least, most = append(parts, part), all+*part, min(least, *part), max(most, *part)
		}
	}
	for i := 0; i < len(parts) && most > least+1; i++ {
		*parts[i] = (all + len(parts) - 1 - i) / len(parts)
	}
}
