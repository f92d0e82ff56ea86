package plot

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// columns is roughly how many columns of pixels a chart has for data.
const columns = 1000

// maxSegment is the most steps that are painted as one line. The time to paint a line grows with
// the square of the number of its steps.
const maxSegment = 60

// grid adds faint lines behind the data.
func (f *Figure) grid() {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = faint, faint
	g.Horizontal.Dashes, g.Vertical.Dashes = nil, nil
	f.plot.Add(g)
}

// steps adds a series that is constant between changes. A line without a name is not in the legend.
func (f *Figure) steps(s series, line draw.LineStyle, name string) {
	points := make(plotter.XYs, len(s.x))
	for i := range points {
		points[i] = plotter.XY{X: s.x[i], Y: s.y[i]}
	}
	for from := 0; from < max(len(points)-1, 1); from += maxSegment {
		f.plot.Add(
			&plotter.Line{
				XYs:       points[from:min(from+maxSegment+1, len(points))],
				StepStyle: plotter.PostStep,
				LineStyle: line,
			},
		)
	}
	if name != "" {
		f.legend = append(f.legend, entry{name: name, line: line})
	}
}

// completion is the distribution of completion times: for each time, the share of jobs that took no
// longer.
func (a Album) completion() *Figure {
	f := newFigure(
		"jct",
		"Job completion time (JCT)",
		"JCT, from submission to end (logarithmic)",
		"share of jobs",
	)
	f.grid()
	least, most := math.Inf(1), 0.0
	for _, r := range a.Runs {
		jcts := completions(r.Result)
		if len(jcts) == 0 {
			continue
		}
		s := series{make([]float64, 0, len(jcts)), make([]float64, 0, len(jcts))}
		for k, jct := range jcts {
			x := max(jct.Seconds(), 1e-3)
			least, most = min(least, x), max(most, x)
			s.x, s.y = append(s.x, math.Log(x)), append(s.y, float64(k+1)/float64(len(jcts)))
		}
		f.steps(s.thin(columns), a.lineStyle(r.Name), r.Name)
	}
	p := f.plot
	if most == 0 {
		least, most = 1, 10
	}
	low, high := logBounds(least, most)
	p.X.Min, p.X.Max = math.Log(low), math.Log(high)
	p.X.Tick.Marker = plot.TickerFunc(logTicks)
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.TickerFunc(shareTicks)
	return f
}

// queue is the number of waiting jobs over time.
func (a Album) queue() *Figure {
	f := a.overTime("queue", "Queue length", "waiting jobs")
	for _, r := range a.Runs {
		f.steps(seriesOf(r.Result, waiting).thin(columns), a.lineStyle(r.Name), r.Name)
	}
	f.fromZero()
	return f
}

// gpuUse is the number of GPUs in use over time, with the number of all GPUs.
func (a Album) gpuUse() *Figure {
	f := a.overTime("use", "GPUs in use", "GPUs")
	most := 0.0
	for _, r := range a.Runs {
		f.steps(seriesOf(r.Result, busy).thin(columns), a.lineStyle(r.Name), r.Name)
		for m := range r.Result.Timeline.All() {
			most = max(most, capacity(&m))
		}
	}
	limit := draw.LineStyle{Color: ink, Width: vg.Points(1), Dashes: []vg.Length{3, 2}}
	f.steps(seriesOf(a.longest(), capacity).thin(columns), limit, "all GPUs")
	f.fromZero()
	f.plot.Y.Max = max(f.plot.Y.Max, most*1.04)
	return f
}

// longest returns the result that lasts longest: its line of all GPUs is drawn.
func (a Album) longest() *sim.Result {
	r := a.Runs[0].Result
	for _, other := range a.Runs[1:] {
		if end(other.Result) > end(r) {
			r = other.Result
		}
	}
	return r
}

// overTime returns an empty chart over the time of the album's results.
func (a Album) overTime(name, title, y string) *Figure {
	last := end(a.longest())
	u := unitFor(last)
	f := newFigure(name, title, "time ("+u.name+")", y)
	f.grid()
	f.plot.X.Min, f.plot.X.Max = 0, max(last, 1)
	f.plot.X.Tick.Marker = timeTicks(u)
	f.plot.Y.Tick.Marker = plot.TickerFunc(countTicks)
	return f
}

// fromZero makes both axes begin at 0.
func (f *Figure) fromZero() {
	f.plot.X.Min = 0
	f.plot.Y.Min = 0
	f.plot.Y.Max = max(f.plot.Y.Max*1.04, 1)
}

// overLoad compares mean completion times over load.
func (a Album) overLoad() *Figure {
	most := 0.0
	for _, c := range a.Curves {
		for _, p := range c.Points {
			most = max(most, p.MeanJCT.Seconds())
		}
	}
	u := unitFor(most)
	f := newFigure("load", "Mean JCT over load", a.LoadLabel, "mean JCT ("+u.name+")")
	f.grid()
	for i, c := range a.Curves {
		points := make(plotter.XYs, len(c.Points))
		for k, p := range c.Points {
			points[k] = plotter.XY{X: p.Load, Y: p.MeanJCT.Seconds()}
		}
		line := a.lineStyle(c.Name)
		dots := draw.GlyphStyle{Color: line.Color, Radius: vg.Points(3), Shape: shapes[i%len(shapes)]}
		f.plot.Add(&plotter.Line{XYs: points, LineStyle: line}, &plotter.Scatter{XYs: points, GlyphStyle: dots})
		f.legend = append(f.legend, entry{c.Name, line, dots})
	}
	f.plot.Y.Min, f.plot.Y.Max = 0, max(f.plot.Y.Max*1.05, 1)
	spread := max(f.plot.X.Max-f.plot.X.Min, 0.1)
	f.plot.X.Min, f.plot.X.Max = f.plot.X.Min-spread*0.03, f.plot.X.Max+spread*0.03
	f.plot.Y.Tick.Marker = timeTicks(u)
	return f
}

// shapes distinguish curves without colours.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	draw.RingGlyph{},
	draw.SquareGlyph{},
	draw.TriangleGlyph{},
	draw.CrossGlyph{},
}
