package plot

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// The most data of a result that goes into the page. With more, the page would open slowly.
const (
	maxJobs  = 200_000
	maxBars  = 50_000
	maxUsers = 30
)

// mostUsed returns figures with the users that have the most GPU hours, and how many are left out.
func mostUsed(f *sim.Figures) (kept *sim.Figures, left int) {
	if f == nil || len(f.ByUser) <= maxUsers {
		return f, 0
	}
	few := *f
	few.ByUser = slices.Clone(f.ByUser)
	slices.SortStableFunc(few.ByUser, func(a, b sim.Group) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	few.ByUser = few.ByUser[:maxUsers]
	return &few, len(f.ByUser) - maxUsers
}

// contents are the page's data. The large parts, in columns, are read from the results as they are
// written.
type contents struct {
	names     []string // in the order of their colours
	runs      []runData
	curves    []curveData
	loadLabel string
	notes     []string
}

type runData struct {
	name    string
	summary sim.Summary
	result  *sim.Result
	every   int // one of so many jobs is shown
	bars    []bar
	nodes   []nodeData
}

type nodeData struct {
	Name string `json:"name"`
	GPUs int    `json:"gpus"`
}

type curveData struct {
	Name string    `json:"name"`
	Load []float64 `json:"load"`
	Mean []seconds `json:"mean_s"`
}

// seconds is a time that is written in seconds, to the nanosecond.
type seconds time.Duration

// MarshalJSON writes a decimal number.
func (s seconds) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s seconds) append(to []byte) []byte {
	return strconv.AppendFloat(to, time.Duration(s).Seconds(), 'f', -1, 64)
}

// contents collects what the page shows.
func (a Album) contents() contents {
	c := contents{names: a.names(), curves: []curveData{}, loadLabel: a.LoadLabel, notes: []string{}}
	c.notes = append(c.notes, a.Notes...)
	for _, r := range a.Runs {
		d := runData{
			name: r.Name, summary: r.Result.Summary, result: r.Result, nodes: []nodeData{},
			every: max((r.Result.Jobs.Len()+maxJobs-1)/maxJobs, 1),
		}
		d.summary.Configuration = nil
		if figures, left := mostUsed(d.summary.Figures); left > 0 {
			d.summary.Figures = figures
			c.notes = append(c.notes, fmt.Sprintf("%s: the table has the %d users with the most GPU hours, of %d", r.Name,
				maxUsers, maxUsers+left))
		}
		for i, n := range r.Result.Nodes {
			d.nodes = append(d.nodes, nodeData{cmp.Or(n.Name, "node "+strconv.Itoa(i)), n.GPUs})
		}
		if d.every > 1 {
			c.notes = append(c.notes, fmt.Sprintf("%s: the distribution is that of every %dth job", r.Name, d.every))
		}
		var more bool
		if d.bars, more = bars(r.Result); more {
			c.notes = append(c.notes, fmt.Sprintf("%s: the chart of jobs on GPUs has the first %d runs", r.Name, runsOf(d.bars)))
		}
		c.runs = append(c.runs, d)
	}
	for _, curve := range a.Curves {
		d := curveData{Name: curve.Name, Load: []float64{}, Mean: []seconds{}}
		for _, p := range curve.Points {
			d.Load, d.Mean = append(d.Load, p.Load), append(d.Mean, seconds(p.MeanJCT))
		}
		c.curves = append(c.curves, d)
	}
	return c
}

// write writes the data.
func (c *contents) write(w *jsonWriter) {
	w.field("{", "names")
	w.value(c.names)
	w.field(",", "runs")
	w.raw("[")
	for i := range c.runs {
		if i > 0 {
			w.raw(",")
		}
		c.runs[i].write(w)
	}
	w.field("],", "curves")
	w.value(c.curves)
	w.field(",", "loadLabel")
	w.value(c.loadLabel)
	w.field(",", "notes")
	w.value(c.notes)
	w.raw("}")
}

// write writes the data of a result.
func (d *runData) write(w *jsonWriter) {
	w.field("{", "name")
	w.value(d.name)
	w.field(",", "summary")
	w.value(d.summary)
	w.field(",", "jobs")
	d.writeJobs(w)
	w.field(",", "timeline")
	d.writeTimeline(w)
	w.field(",", "gantt")
	d.writeGantt(w)
	w.field(",", "nodes")
	w.value(d.nodes)
	w.raw("}")
}

// column is a value of each job, sample or bar.
type column[R any] struct {
	name string
	put  func(to []byte, row *R) []byte
}

// writeColumns writes columns of rows as an object of arrays.
func writeColumns[R any](w *jsonWriter, rows iter.Seq[R], columns []column[R]) {
	before := "{"
	for _, c := range columns {
		w.field(before, c.name)
		w.array(func(element func(put func(to []byte) []byte)) {
			for row := range rows {
				element(func(to []byte) []byte { return c.put(to, &row) })
			}
		})
		before = ","
	}
	w.raw("}")
}

// writeJobs writes a result's jobs, or every n-th of very many.
func (d *runData) writeJobs(w *jsonWriter) {
	rows := func(yield func(sim.JobResult) bool) {
		for i := 0; i < d.result.Jobs.Len() && yield(d.result.Jobs.Unplaced(i)); i += d.every {
		}
	}
	writeColumns(w, rows, []column[sim.JobResult]{
		{"id", func(to []byte, j *sim.JobResult) []byte { return strconv.AppendInt(to, int64(j.ID), 10) }},
		{"gpus", func(to []byte, j *sim.JobResult) []byte { return strconv.AppendInt(to, int64(j.GPUs), 10) }},
		{"submit", func(to []byte, j *sim.JobResult) []byte { return seconds(j.Submit).append(to) }},
		{"start", func(to []byte, j *sim.JobResult) []byte { return appendOptional(to, j.Start, j.Started) }},
		// null for jobs that did not end
		{"finish", func(to []byte, j *sim.JobResult) []byte {
			return appendOptional(to, j.Finish, j.Outcome != sim.Unfinished)
		}},
		{"lost", func(to []byte, j *sim.JobResult) []byte { return strconv.AppendBool(to, j.Outcome == sim.Lost) }},
	})
}

// appendOptional appends a time, or null.
func appendOptional(to []byte, at time.Duration, is bool) []byte {
	if !is {
		return append(to, "null"...)
	}
	return seconds(at).append(to)
}

// writeTimeline writes a result's samples.
func (d *runData) writeTimeline(w *jsonWriter) {
	writeColumns(w, d.result.Timeline.All(), []column[sim.Sample]{
		{"at", func(to []byte, m *sim.Sample) []byte { return seconds(m.At).append(to) }},
		{"waiting", func(to []byte, m *sim.Sample) []byte { return strconv.AppendInt(to, int64(m.Waiting+m.Held), 10) }},
		{"running", func(to []byte, m *sim.Sample) []byte { return strconv.AppendInt(to, int64(m.Running), 10) }},
		{"busy", func(to []byte, m *sim.Sample) []byte { return strconv.AppendFloat(to, busy(m), 'f', -1, 64) }},
		{"capacity", func(to []byte, m *sim.Sample) []byte { return strconv.AppendInt(to, int64(m.Capacity), 10) }},
	})
}

// writeGantt writes bars.
func (d *runData) writeGantt(w *jsonWriter) {
	run := func(b *bar) *sim.Run { return &d.result.Runs[b.run] }
	writeColumns(w, slices.Values(d.bars), []column[bar]{
		{"job", func(to []byte, b *bar) []byte { return strconv.AppendInt(to, int64(run(b).Job), 10) }},
		{"from", func(to []byte, b *bar) []byte { return seconds(run(b).From).append(to) }},
		{"to", func(to []byte, b *bar) []byte { return seconds(run(b).To).append(to) }},
		{"row", func(to []byte, b *bar) []byte { return strconv.AppendInt(to, int64(b.row), 10) }},
		{"rows", func(to []byte, b *bar) []byte { return strconv.AppendInt(to, int64(b.rows), 10) }},
		{"preempted", func(to []byte, b *bar) []byte { return strconv.AppendBool(to, run(b).Preempted) }},
	})
}
