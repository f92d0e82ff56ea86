package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/scheduler/plot"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// maxRunsInPlots is the most simulations of a comparison in one chart; more would be
// indistinguishable.
const maxRunsInPlots = 8

// draw writes the charts of a result.
func (o *output) draw(result *sim.Result, s *settings, model *modelView, dir string) error {
	if !o.pictures() || result.Jobs.Len() == 0 {
		return nil
	}
	title := s.label()
	if s.Profile != native {
		title += ", profile " + s.Profile
	}
	_, err := plot.Album{
		Title: title, Runs: []plot.Run{{Name: s.label(), Result: result}},
		Notes: slices.Concat(s.trace.notes(), model.notes()),
	}.Write(dir)
	return err
}

// draw writes the charts of a comparison: the results over load, and the first simulations at the
// highest load.
func (g *grid) draw(dir string) error {
	title := "comparison of " + humanize.Count(g.schedulers(), "scheduler", "schedulers")
	if len(g.loads) > 1 {
		title += " at " + humanize.Count(len(g.loads), "load", "loads")
	}
	album := plot.Album{Title: title, Notes: slices.Concat(g.base.trace.notes(), g.model.notes())}
	curves := map[string]int{}
	for i := range g.cells {
		c := &g.cells[i]
		if c.result == nil || c.result.Summary.N == 0 {
			continue
		}
		name := g.label(c) // without the load, so that a scheduler keeps its colour
		if c.load == slices.Max(append([]float64{0}, g.loads...)) && len(album.Runs) < maxRunsInPlots {
			album.Runs = append(album.Runs, plot.Run{Name: name, Result: c.result})
		}
		if len(g.loads) < 2 {
			continue
		}
		at, ok := curves[name]
		if !ok {
			at = len(album.Curves)
			curves[name] = at
			album.Curves = append(album.Curves, plot.Curve{Name: name})
		}
		album.Curves[at].Points = append(album.Curves[at].Points, plot.Point{
			Load: c.load, MeanJCT: time.Duration(c.result.Summary.AvgJCT * float64(time.Second)),
		})
	}
	if len(album.Curves) > 0 {
		album.LoadLabel = "load (share of GPUs)"
		album.Title += fmt.Sprintf("; over time: at load %v", slices.Max(g.loads))
	}
	if len(album.Runs) == 0 {
		return nil
	}
	_, err := album.Write(dir)
	return err
}

// schedulers counts the schedulers of the grid. Each is simulated at each load.
func (g *grid) schedulers() int { return len(g.orders) * len(g.placements) * len(g.admissions) }

// label names a cell's scheduler by the policies that differ within the grid.
func (g *grid) label(c *cell) string {
	var parts []string
	for _, each := range []struct {
		of   []string
		name string
	}{{g.orders, c.settings.Order}, {g.placements, c.settings.Placement}, {g.admissions, c.settings.Admission}} {
		if len(each.of) > 1 && each.name != "" {
			parts = append(parts, each.name)
		}
	}
	if len(parts) == 0 {
		return c.settings.Order
	}
	return strings.Join(parts, " + ")
}
