package goodput

import (
	"bytes"
	"fmt"
)

// names are the ways, as the picture and the tables name them.
var names = map[string]string{"restart": "restart", "re-plan": "re-plan", "phos": "phos.pipeline"}

// parts are where the time goes, with their colours: those of Okabe and Ito.
var parts = []struct{ name, color string }{
	{"steps that count", "#0072b2"},
	{"computed again", "#d55e00"},
	{"pauses", "#e69f00"},
	{"checkpoints", "#cc79a7"},
	{"too few nodes", "#999999"},
}

// Measures of the picture.
const (
	left, width, right = 250, 470, 20 // of the bars
	top, bar, line     = 66, 13, 17   // between traces there is half a line more
)

// picture draws where the time went: a bar for each trace and way.
func picture(all []result) []byte {
	var svg bytes.Buffer
	height := top + len(all)*(3*line+line/2) + 10
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="%d" y="20" font-size="15">%s on up to 30 nodes: where the time goes</text>
`, left+width+right, height, 12, all[0].Model)
	at := 12
	for _, each := range parts {
		fmt.Fprintf(&svg, "<rect x=\"%d\" y=\"33\" width=\"12\" height=\"12\" fill=\"%s\"/>\n<text x=\"%d\" y=\"43\">%s</text>\n",
			at, each.color, at+17, each.name)
		at += 40 + 7*len(each.name)
	}
	y := top
	for _, r := range all {
		fmt.Fprintf(&svg, "<text x=\"12\" y=\"%d\">%s</text>\n", y+bar-2, r.Trace)
		for _, way := range ways[:3] {
			bars(&svg, y, names[way], shares(r.Ways[way]))
			y += line
		}
		y += line / 2
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

// bars draws one way's parts side by side.
func bars(svg *bytes.Buffer, y int, name string, shares []float64) {
	fmt.Fprintf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-8, y+bar-2, name)
	at := float64(left)
	for i, share := range shares {
		if share > 0 {
			fmt.Fprintf(svg, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s: %.1f %%</title></rect>\n",
				at, y, width*share, bar, parts[i].color, parts[i].name, 100*share)
		}
		at += width * share
	}
}
