package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// table is the output of compare. Scripts read it: fields may be added, never renamed.
type table struct {
	Partial bool `json:"partial"`
	// Model is how fast jobs run; null under another simulator's profile.
	Model *modelView `json:"model"`
	Rows  []row      `json:"rows"`
	// Trace is what was assumed of the jobs, if they are from a file that lacks something.
	Trace *traceFacts `json:"trace,omitempty"`
}

// row is one simulation.
type row struct {
	Name      string  `json:"name"`
	Order     string  `json:"order"`
	Placement string  `json:"placement,omitempty"`
	Admission string  `json:"admission"`
	Load      float64 `json:"load,omitempty"`
	// Offered is how much of the cluster the jobs need while they arrive.
	Offered float64 `json:"offered_load"`
	// Summary is null if the simulation was cut off before it began.
	Summary *sim.Summary `json:"summary"`
}

// table returns a row for each cell. The table is partial if a simulation was cut off.
func (g *grid) table() *table {
	t := &table{Model: g.model, Trace: g.base.trace}
	for i := range g.cells {
		c := &g.cells[i]
		r := row{
			Name: g.name(c), Order: c.settings.Order, Placement: c.settings.Placement, Admission: c.settings.Admission,
			Load: c.load, Offered: offeredLoad(c.input),
		}
		t.Partial = t.Partial || c.result == nil
		if c.result != nil {
			configuration := c.settings.configuration()
			if g.model != nil {
				configuration.Description = g.model.Text
			}
			c.result.Summary.Configuration = configuration
			r.Summary = &c.result.Summary
			t.Partial = t.Partial || r.Summary.Partial
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// show prints the table.
func (t *table) show(to io.Writer, dir string) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(
		out,
		"ORDER\tPLACEMENT\tADMISSION\tLOAD\tOFFERED LOAD\tJOBS\tMEAN JCT\tMEDIAN JCT\tP99 JCT\tMAKESPAN\t"+
			"MEAN START DELAY\tPREEMPTIONS\tGPU UTILIZATION\t",
	)
	for _, r := range t.Rows {
		placement := r.Placement
		if placement == "" {
			placement = "-"
		}
		load := "-"
		if r.Load > 0 {
			load = decimal(r.Load)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.2f\t", r.Order, placement, r.Admission, load, r.Offered)
		m := r.Summary
		if m == nil {
			fmt.Fprint(out, "-\t-\t-\t-\t-\t-\t-\t-\tnot simulated\n")
			continue
		}
		note := ""
		if m.Partial {
			note = "PARTIAL"
		}
		fmt.Fprintf(
			out,
			"%d\t%s\t%s\t%s\t%s\t%s\t%d\t%.1f %%\t%s\n",
			m.N,
			span(m.AvgJCT),
			span(m.MedianJCT),
			span(m.P99JCT),
			span(m.Makespan),
			span(m.AvgStartDelay),
			m.Preemptions,
			100*m.GPUUtilisation,
			note,
		)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	end := &lines{to: to}
	for i, note := range t.Trace.notes() {
		if i == 0 {
			end.line("")
		}
		end.line("trace: %s", note)
	}
	if t.Model != nil {
		end.line("\nmodel: %s", t.Model)
	}
	if dir != "" {
		end.line("\nwritten: %s", dir)
	}
	return end.err
}

// write writes a folder.
func (g *grid) write(dir string, t *table, noPictures bool) error {
	for i := range g.cells {
		if c := &g.cells[i]; c.result != nil {
			if err := c.result.WriteAs(dir, g.name(c)+"."); err != nil {
				return err
			}
		}
	}
	for name, write := range map[string]func(io.Writer) error{
		"compare.json": func(to io.Writer) error { return printJSON(to, t) },
		"compare.csv":  t.csv,
	} {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	if noPictures {
		return nil
	}
	return g.draw(dir)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// csv writes the rows that have a summary.
func (t *table) csv(to io.Writer) error {
	out := csv.NewWriter(to)
	_ = out.Write([]string{
		"name", "order", "placement", "admission", "offered_load", "n", "avg_jct_s", "median_jct_s", "p99_jct_s",
		"makespan_s", "avg_start_delay_s", "preemptions", "gpu_utilisation", "partial",
		"p95_jct_s", "avg_wait_s", "p99_wait_s", "avg_slowdown", "avg_bounded_slowdown", "p99_bounded_slowdown",
		"avg_finish_time_fairness", "max_finish_time_fairness", "fairness_index", "gpu_hours", "model",
	}) // Flush returns the error
	model := ""
	if t.Model != nil {
		model = t.Model.Name
	}
	for _, r := range t.Rows {
		if m := r.Summary; m != nil {
			_ = out.Write(append([]string{
				r.Name, r.Order, r.Placement, r.Admission, decimal(r.Offered), strconv.Itoa(m.N), decimal(m.AvgJCT),
				decimal(m.MedianJCT), decimal(m.P99JCT), decimal(m.Makespan), decimal(m.AvgStartDelay),
				strconv.Itoa(m.Preemptions), decimal(m.GPUUtilisation), strconv.FormatBool(m.Partial),
			}, append(figureColumns(m.Figures), model)...))
		}
	}
	out.Flush()
	return out.Error()
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// scaled multiplies a time by a factor, to the millisecond.
func scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * by).Round(time.Millisecond)
}
