package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// rect is a rectangle of a chart, as a browser reads it.
type rect struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Fill   string  `xml:"fill,attr"`
	Title  string  `xml:"title"`
}

// chart is what a browser reads of a chart. The first rectangle is the ground.
type chart struct {
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Texts  []struct {
		X     float64 `xml:"x,attr"`
		Y     float64 `xml:"y,attr"`
		Words string  `xml:",chardata"`
	} `xml:"text"`
}

// read reads a chart, and returns its rectangles with titles. All of them, and the beginnings of
// all texts, must lie within it.
func read(t *testing.T, draw func(io.Writer) error) (c chart, rects []rect) {
	t.Helper()
	var text bytes.Buffer
	if err := draw(&text); err != nil {
		t.Fatal(err)
	}
	var ground struct {
		chart
		Rects []struct {
			rect
			Width  string `xml:"width,attr"`
			Height string `xml:"height,attr"`
		} `xml:"rect"`
	}
	if err := xml.Unmarshal(text.Bytes(), &ground); err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	for _, each := range ground.Rects[1:] {
		r := each.rect
		if _, err := fmt.Sscan(each.Width+" "+each.Height, &r.Width, &r.Height); err != nil {
			t.Fatal(err)
		}
		rects = append(rects, r)
	}
	c = ground.chart
	for _, r := range rects {
		if r.X < 0 || r.Y < 0 || r.X+r.Width > c.Width || r.Y+r.Height > c.Height || r.Width < 0 || r.Title == "" {
			t.Errorf("a rectangle %+v in a chart of %v × %v", r, c.Width, c.Height)
		}
	}
	for _, each := range c.Texts {
		if each.X < 0 || each.Y < 0 || each.X > c.Width || each.Y > c.Height {
			t.Errorf("%q at %v, %v in a chart of %v × %v", each.Words, each.X, each.Y, c.Width, c.Height)
		}
	}
	return c, rects
}

// plan returns a plan for nodes that survives a failure, of a model of so many layers.
func plan(t *testing.T, layers, nodes int) *pipeline.Plan {
	t.Helper()
	var all []pipeline.Layer
	for i := range layers {
		all = append(all, pipeline.Layer{
			Name: fmt.Sprint("<layer> & ", i), Forward: time.Duration(1+i%3) * time.Millisecond,
			Backward: time.Duration(2+i%2) * time.Millisecond, StateBytes: int64(1<<20 + i),
		})
	}
	profile, err := pipeline.NewProfile(all)
	if err != nil {
		t.Fatal(err)
	}
	p, err := instance.Make(t.Context(), profile, pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, Faults: 1, Microbatches: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestIteration: each stage has two passes of each microbatch, as long as its layers need, and does
// one at a time.
func TestIteration(t *testing.T) {
	p := plan(t, 9, 9)
	for _, template := range p.Templates {
		for _, microbatches := range []int{1, 7} {
			c, rects := read(t, func(to io.Writer) error { return Iteration(to, p.Profile, template, microbatches) })
			type pass struct {
				stage, microbatch int
				what              string
			}
			times, busy, end := map[pass]float64{}, map[int]float64{}, 0.0
			slices.SortFunc(rects, func(a, b rect) int { return int(math.Copysign(1, a.X-b.X)) })
			free := map[int]float64{} // until when each stage is busy
			scale := 0.0
			for _, r := range rects {
				var done pass
				var from, to float64
				title := strings.NewReplacer(",", "", ":", "").Replace(r.Title)
				if _, err := fmt.Sscanf(title, "stage %d microbatch %d %s %f to %f ms",
					&done.stage, &done.microbatch, &done.what, &from, &to); err != nil {
					continue // the legend
				}
				if times[done] != 0 {
					t.Errorf("%+v is drawn twice", done)
				}
				times[done] = to - from
				busy[done.stage] += to - from
				end = max(end, to)
				if r.X < free[done.stage]-0.02 {
					t.Errorf("%q begins before the one before it ends", r.Title)
				}
				free[done.stage] = r.X + r.Width
				if width := r.Width / (to - from); scale == 0 {
					scale = width
				} else if math.Abs(width/scale-1) > 0.01 {
					t.Errorf("%q is %v wide for a millisecond, others are %v", r.Title, width, scale)
				}
			}
			if want := 2 * len(template.Stages) * microbatches; len(times) != want {
				t.Errorf("%d stages and %d microbatches: %d passes, want %d", len(template.Stages), microbatches, len(times), want)
			}
			for i, s := range template.Stages {
				want := 0.0
				for layer := s.From; layer < s.To; layer++ {
					want += float64(1+layer%3+2+layer%2) * float64(microbatches)
				}
				if math.Abs(busy[i]-want) > 1e-3 {
					t.Errorf("stage %d is busy for %v ms, want %v", i, busy[i], want)
				}
			}
			if want := fmt.Sprintf(": %s ms;", pipeline.Milliseconds(int64(end*1e6))); !strings.Contains(c.Texts[0].Words, want) {
				t.Errorf("the last pass ends at %v; the title is %q", end, c.Texts[0].Words)
			}
		}
	}
}

// boxes returns the nodes of a plan that are drawn, by what is said of each.
func boxes(rects []rect) map[string]string {
	found := map[string]string{}
	for _, r := range rects {
		if strings.HasPrefix(r.Title, "node ") {
			found[r.Title] = r.Fill
		}
	}
	return found
}

// TestNodes: each node of a plan is drawn once, with its layers.
func TestNodes(t *testing.T) {
	p := plan(t, 6, 7)
	_, rects := read(t, func(to io.Writer) error { return Nodes(to, p) })
	got := boxes(rects)
	for _, each := range p.Pipelines {
		for i, node := range each.Nodes {
			held := map[int]bool{}
			for _, run := range p.Template(each.Template).NodeLayers(i) {
				for layer := run[0]; layer < run[1]; layer++ {
					held[layer] = true
				}
			}
			for title := range got {
				if name, said, _ := strings.Cut(title, ", "); name == fmt.Sprint("node ", node) && !saysLayers(said, held) {
					t.Errorf("%q, but it has %v", title, held)
				}
			}
		}
	}
	if len(got) != 7 {
		t.Errorf("%d nodes are drawn: %v", len(got), got)
	}
}

// saysLayers reports whether a text like layers 1–3, 5 names exactly some layers.
func saysLayers(said string, held map[int]bool) bool {
	numbers, several := strings.CutPrefix(said, "layers ")
	if !several {
		numbers = strings.TrimPrefix(said, "layer ")
	}
	named := 0
	for run := range strings.SplitSeq(numbers, ", ") {
		var from, to int
		if n, _ := fmt.Sscanf(run, "%d–%d", &from, &to); n < 2 {
			to = from
		}
		for layer := from; layer <= to; layer++ {
			if !held[layer] {
				return false
			}
			named++
		}
	}
	return named == len(held) && several == (named > 1)
}

// TestChange: nodes that go are marked before the change, those that join or get layers behind it.
func TestChange(t *testing.T) {
	p := plan(t, 6, 7)
	change := replan.Change{Dead: []cluster.NodeID{1}, Leaving: []cluster.NodeID{4}, Joined: []cluster.NodeID{90}}
	r, err := replan.Recover(p, change)
	if err != nil {
		t.Fatal(err)
	}
	_, rects := read(t, func(to io.Writer) error { return Change(to, p, change, r) })
	goes, joins := 0, 0
	for title, fill := range boxes(rects) {
		var node int
		if _, err := fmt.Sscanf(title, "node %d", &node); err != nil {
			t.Fatal(err)
		}
		marked := map[bool]string{true: orange, false: grey}[node == 1 || node == 4]
		switch {
		case strings.HasSuffix(title, ": goes"):
			goes++
		case strings.HasSuffix(title, ": stays"):
		case strings.Contains(title, ": joins"):
			joins, marked = joins+1, green
		case strings.Contains(title, ": gets"):
			marked = sky
		case node == 1 || node == 4:
			t.Errorf("%q is in the plan after the change", title)
		}
		if fill != marked {
			t.Errorf("%q has the colour %s, want %s", title, fill, marked)
		}
	}
	if goes != 2 || joins != 1 {
		t.Errorf("%d nodes go and %d join: %v", goes, joins, boxes(rects))
	}
}

// TestRoundStep: steps of an axis are the least round number that is large enough.
func TestRoundStep(t *testing.T) {
	for least, want := range map[float64]float64{
		0.0004: 0.0005, 0.09: 0.1, 1: 1, 1.01: 2, 2: 2, 3: 5, 5.5: 10, 99: 100, 101: 200, 4e8: 5e8,
	} {
		if got := roundStep(least); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("at least %v: %v, want %v", least, got, want)
		}
	}
}

// TestHostileWords: no text gets out of its element.
func TestHostileWords(t *testing.T) {
	words := `</title><script>alert("x")</script>&amp;'`
	c, rects := read(t, func(to io.Writer) error {
		var drawn canvas
		drawn.box(box{width: 1, height: 1, fill: grey, title: words})
		drawn.text(0, 10, "start", ink, words)
		return drawn.write(to)
	})
	if len(rects) != 1 || rects[0].Title != words || len(c.Texts) != 1 || c.Texts[0].Words != words {
		t.Errorf("read %+v, %+v", rects, c.Texts)
	}
}
