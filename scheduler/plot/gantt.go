package plot

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// ganttFile returns the name of a result's chart among those of others. taken are the names so far.
func ganttFile(run string, taken []string) string {
	name := "gantt-" + strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("._", r) {
			return r
		}
		return '-'
	}, run)
	free := name
	for n := 2; slices.Contains(taken, free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// gantt is the Gantt chart of a result. file is empty for the only one.
func gantt(r Run, file string) *Figure {
	name, title := "gantt", "Jobs on GPUs"
	if file != "" {
		name, title = file, "Jobs on GPUs: "+r.Name
	}
	all, more := bars(r.Result)
	if more {
		title += fmt.Sprintf(" (the first %d runs)", runsOf(all))
	}
	c := &chart{result: r.Result, bars: all, first: rows(r.Result)}
	_, end, _, most := c.DataRange()
	u := unitFor(end)
	f := newFigure(name, title, "time ("+u.name+")", "nodes and their GPUs")
	f.height = min(max(height, vg.Length(len(r.Result.Nodes))*vg.Points(9)), 3*height)
	f.plot.Add(c)
	p := f.plot
	p.X.Min, p.X.Max = 0, end
	p.X.Tick.Marker = timeTicks(u)
	p.Y.Min, p.Y.Max = 0, most
	p.Y.Tick.Length = 0
	p.Y.Tick.Marker = nodeTicks(r.Result.Nodes, c.first)
	return f
}

// maxNodeLabels is the most nodes that are labelled beside the chart.
const maxNodeLabels = 24

// nodeTicks labels nodes in the middle of their rows, the first one on top.
func nodeTicks(nodes []cluster.Node, first []int) plot.TickerFunc {
	return func(_, most float64) (ticks []plot.Tick) {
		every := (len(nodes) + maxNodeLabels - 1) / maxNodeLabels
		for i := 0; i < len(nodes); i += every {
			label := nodes[i].Name
			if label == "" {
				label = strconv.Itoa(i)
			}
			ticks = append(ticks, plot.Tick{Value: most - float64(first[i]+first[i+1])/2, Label: label})
		}
		return ticks
	}
}

// chart draws bars.
type chart struct {
	result *sim.Result
	bars   []bar
	first  []int
}

// leastWidth is the width below which a bar is widened.
const leastWidth = vg.Length(0.15)

// Plot draws bars and the lines between nodes. It skips bars that are invisible beside the one
// before: narrower than a third of a pixel, and beginning where another bar of the row was just
// drawn. All bars of a colour are one path, which keeps files small. There is one path at a time:
// in memory they take much more.
func (g *chart) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	most := float64(g.first[len(g.first)-1])
	shown := g.visible(x)
	var path vg.Path
	for _, hue := range shades() {
		path = path[:0]
		for _, b := range shown {
			run := &g.result.Runs[b.run]
			if shade(run.Job) != hue {
				continue
			}
			left, right := x(run.From.Seconds()), x(run.To.Seconds())
			top, bottom := y(most-float64(b.row)), y(most-float64(b.row+b.rows))
			if right-left > 3 && top-bottom > 3 {
				right, top = right-0.5, top-0.5
			}
			box(&path, left, bottom, max(right, left+leastWidth), top)
		}
		if len(path) > 0 {
			c.SetColor(hue)
			c.Fill(path)
		}
	}
	line := draw.LineStyle{Color: faint, Width: 0.5}
	if y(1)-y(0) < 2 {
		line.Width = 0.2
	}
	for _, row := range g.first[1 : len(g.first)-1] {
		at := y(most - float64(row))
		c.StrokeLine2(line, c.Min.X, at, c.Max.X, at)
	}
}

// visible returns the bars that can be told from the ones before.
func (g *chart) visible(x func(float64) vg.Length) (shown []*bar) {
	drawn := make([]vg.Length, g.first[len(g.first)-1]) // up to where each row is painted
	for i := range g.bars {
		b := &g.bars[i]
		if right := x(g.result.Runs[b.run].To.Seconds()); right >= drawn[b.row]+leastWidth {
			drawn[b.row] = right
			shown = append(shown, b)
		}
	}
	return shown
}

// DataRange returns the chart's extent.
func (g *chart) DataRange() (xmin, xmax, ymin, ymax float64) {
	for _, b := range g.bars {
		xmax = max(xmax, g.result.Runs[b.run].To.Seconds())
	}
	return 0, xmax, 0, float64(g.first[len(g.first)-1])
}

// shade returns a job's colour; consecutive numbers differ.
func shade(id cluster.JobID) color.RGBA { return shades()[uint64(id)%uint64(len(shades()))] }

// shades are six colours, and paler versions of them.
var shades = sync.OnceValue(func() (all []color.RGBA) {
	all = append(all, palette[:len(palette)-1]...)
	for _, c := range all[:len(palette)-1] {
		all = append(all, color.RGBA{lighten(c.R), lighten(c.G), lighten(c.B), 0xff})
	}
	return all
})

// lighten moves a colour component a third of the way to white.
func lighten(part uint8) uint8 { return part + (255-part)/3 }

// box adds a rectangle to a path.
func box(p *vg.Path, left, bottom, right, top vg.Length) {
	p.Move(vg.Point{X: left, Y: bottom})
	p.Line(vg.Point{X: right, Y: bottom})
	p.Line(vg.Point{X: right, Y: top})
	p.Line(vg.Point{X: left, Y: top})
	p.Close()
}
