package plot

import (
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette is that of Okabe and Ito, without its yellow, which is too pale for lines on white.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x44, 0x44, 0x44, 0xff},
}

// dashes are the patterns of lines. Later lines are painted over earlier ones, and where lines
// coincide, the earlier one shows in the gaps. There are as many as colours.
var dashes = [][]vg.Length{nil, {9, 4}, {5, 5}, {3, 5}, {9, 3, 2, 3}, {6, 3, 2, 3, 2, 3}, {2, 4}}

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	gray  = color.RGBA{0x77, 0x77, 0x77, 0xff}
)

// names returns the names of results and curves, each once: equal names have equal colours
// everywhere.
func (a Album) names() (names []string) {
	for _, r := range a.Runs {
		names = append(names, r.Name)
	}
	for _, c := range a.Curves {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// lineStyle returns the line of a name.
func (a Album) lineStyle(name string) draw.LineStyle {
	n := slices.Index(a.names(), name)
	return draw.LineStyle{
		Color:  palette[n%len(palette)],
		Width:  vg.Points(1.4),
		Dashes: dashes[(n+n/len(palette))%len(dashes)],
	}
}

// bold is the weight of bold letters in golang.org/x/image/font.
const bold = 3

// Sizes of a chart, and the resolution of a PNG.
const (
	width       = 7.2 * vg.Inch
	height      = 4.2 * vg.Inch
	dotsAnInch  = 160
	margin      = 10 // points
	titleHeight = 20 // points
	lineHeight  = 14 // points, of a legend
)

// Figure is a chart.
type Figure struct {
	// Name is the name of its files, without suffix.
	Name string

	title  string
	plot   *plot.Plot
	height vg.Length
	legend []entry
}

// entry is a name in the legend with its line and, if any, its dots.
type entry struct {
	name string
	line draw.LineStyle
	dot  draw.GlyphStyle
}

// newFigure returns an empty chart with labelled axes.
func newFigure(name, title, x, y string) *Figure {
	p := plot.New()
	for _, axis := range []struct {
		*plot.Axis
		label string
	}{{&p.X, x}, {&p.Y, y}} {
		axis.Label.Text = axis.label
		axis.Label.TextStyle = axisText(axis.Label.TextStyle, 10)
		axis.Tick.Label = axisText(axis.Tick.Label, 9)
		axis.Tick.Color, axis.LineStyle.Color = gray, gray
		axis.Tick.Length = vg.Points(3)
		axis.Padding = 0
		axis.Tick.Marker = plot.TickerFunc(numberTicks)
	}
	return &Figure{Name: name, title: title, plot: p, height: height}
}

// style returns upright sans-serif text.
func style(points vg.Length) text.Style {
	t := text.Style{Color: ink, Handler: plot.DefaultTextHandler}
	t.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: points}
	return t
}

// axisText returns such text with the position that an axis uses.
func axisText(t text.Style, points vg.Length) text.Style {
	t.Font, t.Color = style(points).Font, ink
	return t
}

// draw draws the chart. Title and legend are in strips above, so that they cover no data.
func (f *Figure) draw(on vg.CanvasSizer) {
	c := draw.New(on)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	title := style(12)
	title.Font.Weight = bold
	title.YAlign = text.YTop
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, f.title)
	c = draw.Crop(c, 0, 0, 0, -titleHeight)
	lines := f.lines(c.Size().X)
	f.plot.Draw(draw.Crop(c, 0, -6, 0, -lineHeight*vg.Length(len(lines))-6))
	top := c.Max.Y - lineHeight/2
	for _, line := range lines {
		left := c.Min.X
		for _, e := range line {
			c.StrokeLine2(e.line, left, top, left+18, top)
			if e.dot.Shape != nil {
				c.DrawGlyph(e.dot, vg.Point{X: left + 9, Y: top})
			}
			t := style(9)
			t.YAlign = text.YCenter
			c.FillText(t, vg.Point{X: left + 23, Y: top}, e.name)
			left += e.width()
		}
		top -= lineHeight
	}
}

// width returns an entry's width.
func (e entry) width() vg.Length { return style(9).Width(e.name) + 40 }

// lines wraps the legend.
func (f *Figure) lines(available vg.Length) (lines [][]entry) {
	left := vg.Length(0)
	for _, e := range f.legend {
		if len(lines) == 0 || left+e.width() > available {
			lines, left = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		left += e.width()
	}
	return lines
}

// SVG writes the chart as lines and text.
func (f *Figure) SVG(w io.Writer) error {
	c := vgsvg.New(width, f.height)
	f.draw(c)
	_, err := c.WriteTo(&fontWriter{to: w})
	return err
}

// PNG writes the chart as pixels.
func (f *Figure) PNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(width, f.height), vgimg.UseDPI(dotsAnInch))
	f.draw(c)
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}
