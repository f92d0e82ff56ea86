package draw

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

const (
	nodeWidth  = 44
	pipeHeight = 34
)

// Nodes draws a plan: a row for each pipeline, a box for each of its nodes.
func Nodes(to io.Writer, plan *pipeline.Plan) error {
	c := &canvas{}
	c.plan(margin, "Pipelines", plan, func(cluster.NodeID) (string, string) { return grey, "" })
	return c.write(to)
}

// Change draws the plans before and after a change, and marks the nodes that leave, join or receive
// layers.
func Change(to io.Writer, before *pipeline.Plan, change replan.Change, r *replan.Result) error {
	sent := map[cluster.NodeID]int64{}
	for _, each := range r.Transfers {
		for _, stripe := range each.Stripes {
			sent[each.To] += stripe.Bytes
		}
	}
	for _, each := range r.Lost {
		for _, node := range each.To {
			sent[node] += each.Bytes
		}
	}
	c := &canvas{}
	y := c.plan(margin, "Before", before, func(node cluster.NodeID) (string, string) {
		if slices.Contains(change.Dead, node) || slices.Contains(change.Leaving, node) {
			return orange, ": goes"
		}
		return grey, ": stays"
	})
	y = c.plan(y+20, "After", r.Plan, func(node cluster.NodeID) (string, string) {
		switch {
		case slices.Contains(change.Joined, node):
			return green, ": joins, gets " + pipeline.Size(sent[node])
		case sent[node] > 0:
			return sky, ": gets " + pipeline.Size(sent[node])
		}
		return grey, ": has all it needs"
	})
	x := float64(margin)
	for _, each := range []struct{ fill, words string }{
		{orange, "goes"},
		{green, "joins"},
		{sky, "gets layers"},
		{grey, "as it was"},
	} {
		c.box(box{x: x, y: y + 14, width: 12, height: 12, fill: each.fill, title: each.words})
		c.text(x+18, y+24, "start", pale, each.words)
		x += 120
	}
	return c.write(to)
}

// plan draws rows from y on and returns where they end.
func (c *canvas) plan(
	y float64,
	title string,
	plan *pipeline.Plan,
	look func(cluster.NodeID) (fill, title string),
) float64 {
	c.text(
		margin,
		y+12,
		"start",
		ink,
		fmt.Sprintf(
			"%s: %d pipelines, an iteration takes %s ms",
			title,
			len(plan.Pipelines),
			pipeline.Milliseconds(plan.IterationTime()),
		),
	)
	y += 24
	row := func(label string, nodes []cluster.NodeID, holds func(i int) string) {
		c.text(margin+150, y+pipeHeight/2+2, "end", ink, label)
		for i, node := range nodes {
			fill, said := look(node)
			x := float64(margin + 160 + i*nodeWidth)
			c.box(
				box{
					x:      x,
					y:      y,
					width:  nodeWidth - 3,
					height: pipeHeight - 4,
					fill:   fill,
					title:  fmt.Sprintf("node %d%s%s", node, holds(i), said),
				},
			)
			c.text(x+nodeWidth/2-2, y+pipeHeight/2+2, "middle", ink, fmt.Sprint(node))
		}
		y += pipeHeight
	}
	for i, each := range plan.Pipelines {
		template := plan.Template(each.Template)
		row(
			fmt.Sprintf("%d: %s", i, pipeline.Count(each.Microbatches, "microbatch")),
			each.Nodes,
			func(i int) string { return ", " + layers(template.NodeLayers(i)) },
		)
	}
	if len(plan.Spare) > 0 {
		row("spare", plan.Spare, func(int) string { return "" })
	}
	return y
}

// layers formats runs of layers, both ends inclusive.
func layers(runs [][2]int) string {
	var words []string
	count := 0
	for _, run := range runs {
		word := fmt.Sprint(run[0])
		if count += run[1] - run[0]; run[1] > run[0]+1 {
			word += fmt.Sprintf("–%d", run[1]-1)
		}
		words = append(words, word)
	}
	if count == 1 {
		return "layer " + words[0]
	}
	return "layers " + strings.Join(words, ", ")
}
