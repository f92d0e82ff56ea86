package draw

import (
	"bytes"
	"fmt"
	"html"
	"io"
)

// Colours that colour-blind people can tell apart.
const (
	blue   = "#0072b2"
	sky    = "#8cc5e3"
	orange = "#e69f00"
	green  = "#009e73"
	grey   = "#d5d9de"
	ink    = "#22272e"
	pale   = "#6b7480"
)

// canvas collects the elements of a chart; its size is known at the end.
type canvas struct {
	body          bytes.Buffer
	width, height float64
}

// box is a rectangle.
type box struct {
	x, y, width, height float64
	fill                string
	title               string // shown on hover
}

// box draws a rectangle.
func (c *canvas) box(b box) {
	fmt.Fprintf(&c.body, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"><title>%s</title></rect>`+"\n",
		b.x, b.y, b.width, b.height, b.fill, html.EscapeString(b.title))
	c.grow(b.x+b.width, b.y+b.height)
}

// letterWidth is a generous mean width of a letter: only the browser knows the exact width of a
// text.
const letterWidth = 7

// text draws text at a point; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, colour, words string) {
	fmt.Fprintf(
		&c.body,
		`<text x="%.2f" y="%.2f" text-anchor="%s" fill="%s">%s</text>`+"\n",
		x,
		y,
		anchor,
		colour,
		html.EscapeString(words),
	)
	if anchor == "start" {
		x += letterWidth * float64(len([]rune(words)))
	}
	c.grow(x, y)
}

// line draws a thin line. It does not extend the canvas.
func (c *canvas) line(x1, y1, x2, y2 float64) {
	fmt.Fprintf(
		&c.body,
		`<line x1="%.2f" y1="%.2f" x2="%.2f" y2="%.2f" stroke="%s" stroke-width="0.5"/>`+"\n",
		x1,
		y1,
		x2,
		y2,
		pale,
	)
}

// grow extends the canvas to include a point.
func (c *canvas) grow(x, y float64) { c.width, c.height = max(c.width, x), max(c.height, y) }

// margin is the empty space around a chart.
const margin = 16

func (c *canvas) write(to io.Writer) error {
	_, err := fmt.Fprintf(
		to,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`,
		c.width+margin,
		c.height+margin,
		c.body.Bytes(),
	)
	return err
}
