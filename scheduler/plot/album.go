package plot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// Album is a set of results to show together.
type Album struct {
	// Title is the heading of the page.
	Title string

	// Runs are results, in the order of their colours.
	Runs []Run

	// Curves are results over load. LoadLabel is the label of their x axis, as "load (share of GPUs)".
	Curves    []Curve
	LoadLabel string

	// Notes are shown above the charts.
	Notes []string
}

// Run is a result with its name in the legend.
type Run struct {
	Name   string
	Result *sim.Result
}

// Curve is a policy's results at several loads.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a mean completion time at a load.
type Point struct {
	Load    float64
	MeanJCT time.Duration
}

// Write writes the charts and the page to a folder, and returns the files. Each file is written
// atomically.
func (a Album) Write(dir string) (files []string, err error) {
	for _, f := range a.figures() {
		for _, form := range []struct {
			suffix string
			write  func(w io.Writer) error
		}{{".svg", f.SVG}, {".png", f.PNG}} {
			path := filepath.Join(dir, f.Name+form.suffix)
			if err := writeAtomic(path, form.write); err != nil {
				return files, err
			}
			files = append(files, path)
		}
	}
	path := filepath.Join(dir, "index.html")
	if err := writeAtomic(path, a.Page); err != nil {
		return files, err
	}
	return append(files, path), nil
}

// writeAtomic writes a temporary file and renames it.
func writeAtomic(path string, write func(w io.Writer) error) error {
	unfinished := path + ".tmp"
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	out := bufio.NewWriter(file)
	if err := errors.Join(write(out), out.Flush(), file.Close()); err != nil {
		os.Remove(unfinished)
		return fmt.Errorf("draw %s: %w", path, err)
	}
	if err := os.Rename(unfinished, path); err != nil {
		os.Remove(unfinished)
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// figures returns the charts for which there is data.
func (a Album) figures() (all []*Figure) {
	if len(a.Runs) > 0 {
		all = append(all, a.completion(), a.queue(), a.gpuUse())
	}
	var files []string
	for _, r := range a.Runs {
		if all, _ := bars(r.Result); len(all) == 0 {
			continue
		}
		file := ""
		if len(a.Runs) > 1 {
			file = ganttFile(r.Name, files)
			files = append(files, file)
		}
		all = append(all, gantt(r, file))
	}
	if len(a.Curves) > 0 {
		all = append(all, a.overLoad())
	}
	return all
}
