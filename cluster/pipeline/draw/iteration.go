package draw

import (
	"fmt"
	"io"
	"math"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/schedule"
)

const (
	rowHeight  = 22
	leftSide   = 150
	timeWidth  = 1000
	headHeight = 52
)

// Iteration draws the schedule of a template: a row for each stage, forward passes in blue,
// backward passes in orange, white while the stage waits.
func Iteration(to io.Writer, p *pipeline.Profile, t *pipeline.Template, microbatches int) error {
	ops, makespan := schedule.Run(schedule.WorkOf(p, t), microbatches)
	scale := timeWidth / float64(makespan)
	c := &canvas{}
	c.text(
		margin,
		margin+8,
		"start",
		ink,
		fmt.Sprintf("One iteration of %s on %s: %s ms; the formula says %s ms",
			pipeline.Count(microbatches, "microbatch"), pipeline.Count(t.Nodes, "node"), pipeline.Milliseconds(makespan), pipeline.Milliseconds(t.Line().At(microbatches))),
	)
	c.legend(margin, margin+26)
	for i, s := range t.Stages {
		y := float64(headHeight + i*rowHeight)
		label := fmt.Sprintf("node %d, layers %d–%d", s.Node, s.From, s.To-1)
		if s.GPUs > 1 {
			label += fmt.Sprintf(", %d GPUs", s.GPUs)
		}
		c.text(leftSide-8, y+15, "end", ink, label)
	}
	for _, op := range ops {
		b := box{
			x: leftSide + float64(
				op.From,
			)*scale, y: float64(headHeight + op.Stage*rowHeight + 2), height: rowHeight - 4,
			width: float64(op.To-op.From) * scale, fill: blue,
		}
		what := "forward"
		if op.Microbatch%2 == 1 {
			b.fill = sky
		}
		if op.Backward {
			b.fill, what = orange, "backward"
			if op.Microbatch%2 == 1 {
				b.fill = "#f6d38a"
			}
		}
		b.title = fmt.Sprintf(
			"stage %d, microbatch %d, %s: %s to %s ms",
			op.Stage,
			op.Microbatch,
			what,
			pipeline.Milliseconds(op.From),
			pipeline.Milliseconds(op.To),
		)
		c.box(b)
	}
	c.axis(float64(headHeight+len(t.Stages)*rowHeight), makespan)
	return c.write(to)
}

// legend draws what the colours mean, in a row from x on the baseline y.
func (c *canvas) legend(x, y float64) {
	for _, each := range []struct{ fill, words string }{{blue, "forward"}, {orange, "backward"}} {
		c.box(box{x: x, y: y - 10, width: 12, height: 12, fill: each.fill, title: each.words})
		c.text(x+18, y, "start", pale, each.words+" (every second microbatch is lighter)")
		x += 300
	}
}

// axis draws ticks at round numbers of milliseconds.
func (c *canvas) axis(y float64, makespan int64) {
	step := roundStep(float64(makespan) / 1e6 / 6)
	for ms := 0.0; ms <= float64(makespan)/1e6; ms += step {
		x := leftSide + ms*1e6*timeWidth/float64(makespan)
		c.line(x, headHeight, x, y+4)
		c.text(x, y+18, "middle", pale, fmt.Sprintf("%g ms", math.Round(ms*1e6)/1e6))
	}
}

// roundStep returns the least 1, 2 or 5 times a power of ten that is at least the given number.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least {
			return factor * power
		}
	}
	return 10 * power
}
