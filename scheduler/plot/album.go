package plot

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// Album is what is to be seen together.
type Album struct {
	// Title is the heading of the page.
	Title string

	// Runs are results, in the order of their colours.
	Runs []Run

	// Curves are results over load, and LoadLabel what their X is, as "load (share of GPUs)".
	Curves    []Curve
	LoadLabel string
}

// Run is a result under the name that legends give it.
type Run struct {
	Name   string
	Result *sim.Result
}

// Curve is what a policy came to at several loads.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a mean completion time at a load.
type Point struct {
	Load    float64
	MeanJCT time.Duration
}

// Write makes a folder's pictures and its page, and says which files there are. Each appears whole
// or not at all.
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

// writeAtomic writes a file under another name first.
func writeAtomic(path string, write func(w io.Writer) error) error {
	var out bytes.Buffer
	if err := write(&out); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	unfinished := path + ".tmp"
	if err := os.WriteFile(unfinished, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	if err := os.Rename(unfinished, path); err != nil {
		os.Remove(unfinished)
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// figures are the pictures for which there is something to show.
func (a Album) figures() (all []*Figure) {
	if len(a.Runs) > 0 {
		all = append(all, a.completion(), a.queue(), a.gpuUse())
	}
	for i, r := range a.Runs {
		if len(bars(r.Result)) > 0 {
			all = append(all, gantt(r, i, len(a.Runs)))
		}
	}
	if len(a.Curves) > 0 {
		all = append(all, a.overLoad())
	}
	return all
}
