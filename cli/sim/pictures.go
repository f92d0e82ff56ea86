package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/plot"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// maxRunsInPlots is how many simulations of a comparison are drawn one over the other; more could
// not be told apart.
const maxRunsInPlots = 8

// draw makes the pictures of a result.
func (o *output) draw(result *sim.Result, s *settings, dir string) error {
	if o.noPictures || len(result.Jobs) == 0 {
		return nil
	}
	title := s.label()
	if s.Profile != native {
		title += ", profile " + s.Profile
	}
	_, err := plot.Album{Title: title, Runs: []plot.Run{{Name: s.label(), Result: result}}}.Write(dir)
	return err
}

// draw makes the pictures of a comparison: what it came to over load, and of the highest load the
// first simulations.
func (g *grid) draw(dir string) error {
	album := plot.Album{Title: "comparison of " + counted(len(g.cells), "scheduler", "schedulers")}
	curves := map[string]int{}
	for i := range g.cells {
		c := &g.cells[i]
		if c.result == nil || c.result.Summary.N == 0 {
			continue
		}
		name := (&cell{settings: c.settings}).name() // without the load, so that one scheduler has one colour
		if c.load == slices.Max(append([]float64{0}, g.loads...)) && len(album.Runs) < maxRunsInPlots {
			album.Runs = append(album.Runs, plot.Run{Name: name, Result: c.result})
		}
		if len(g.loads) < 2 {
			continue
		}
		at, known := curves[name]
		if !known {
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
		album.Title += fmt.Sprintf(", over time at load %v", slices.Max(g.loads))
	}
	if len(album.Runs) == 0 {
		return nil
	}
	_, err := album.Write(dir)
	return err
}
