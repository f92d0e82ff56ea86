package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// The most data of a result that goes into the page. With more, the page would open slowly.
const (
	maxJobs    = 200_000
	maxSamples = 200_000
	maxBars    = 50_000
	maxUsers   = 30
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

// contents are the page's data, in columns.
type contents struct {
	Names     []string    `json:"names"` // in the order of their colours
	Runs      []runData   `json:"runs"`
	Curves    []curveData `json:"curves"`
	LoadLabel string      `json:"loadLabel"`
	Notes     []string    `json:"notes"`
}

type runData struct {
	Name     string       `json:"name"`
	Summary  sim.Summary  `json:"summary"`
	Jobs     jobsData     `json:"jobs"`
	Timeline timelineData `json:"timeline"`
	Gantt    ganttData    `json:"gantt"`
	Nodes    []nodeData   `json:"nodes"`
}

type jobsData struct {
	ID     []cluster.JobID `json:"id"`
	GPUs   []int           `json:"gpus"`
	Submit []seconds       `json:"submit"`
	Start  []*seconds      `json:"start"`
	Finish []*seconds      `json:"finish"` // null for jobs that did not end
	Lost   []bool          `json:"lost"`
}

type timelineData struct {
	At       []seconds `json:"at"`
	Waiting  []int     `json:"waiting"`
	Running  []int     `json:"running"`
	Busy     []float64 `json:"busy"`
	Capacity []int     `json:"capacity"`
}

type ganttData struct {
	Job       []cluster.JobID `json:"job"`
	From      []seconds       `json:"from"`
	To        []seconds       `json:"to"`
	Row       []int           `json:"row"`
	Rows      []int           `json:"rows"`
	Preempted []bool          `json:"preempted"`
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
func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// contents collects what the page shows.
func (a Album) contents() contents {
	c := contents{Names: a.names(), Runs: []runData{}, Curves: []curveData{}, LoadLabel: a.LoadLabel, Notes: []string{}}
	c.Notes = append(c.Notes, a.Notes...)
	for _, r := range a.Runs {
		d := runData{Name: r.Name, Summary: r.Result.Summary, Nodes: []nodeData{}}
		d.Summary.Configuration = nil
		if figures, left := mostUsed(d.Summary.Figures); left > 0 {
			d.Summary.Figures = figures
			c.Notes = append(c.Notes, fmt.Sprintf("%s: the table has the %d users with the most GPU hours, of %d", r.Name,
				maxUsers, maxUsers+left))
		}
		for i, n := range r.Result.Nodes {
			d.Nodes = append(d.Nodes, nodeData{cmp.Or(n.Name, "node "+strconv.Itoa(i)), n.GPUs})
		}
		var every int
		if d.Jobs, every = jobs(r.Result); every > 1 {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: the distribution is that of every %dth job", r.Name, every))
		}
		d.Timeline = timeline(r.Result)
		all, more := bars(r.Result)
		if more {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: the chart of jobs on GPUs has the first %d runs", r.Name, runsOf(all)))
		}
		d.Gantt = ganttOf(r.Result, all)
		c.Runs = append(c.Runs, d)
	}
	for _, curve := range a.Curves {
		d := curveData{Name: curve.Name, Load: []float64{}, Mean: []seconds{}}
		for _, p := range curve.Points {
			d.Load, d.Mean = append(d.Load, p.Load), append(d.Mean, seconds(p.MeanJCT))
		}
		c.Curves = append(c.Curves, d)
	}
	return c
}

// jobs returns a result's jobs, or every n-th of very many.
func jobs(r *sim.Result) (d jobsData, every int) {
	every = max((len(r.Jobs)+maxJobs-1)/maxJobs, 1)
	d = jobsData{
		ID:     []cluster.JobID{},
		GPUs:   []int{},
		Submit: []seconds{},
		Start:  []*seconds{},
		Finish: []*seconds{},
		Lost:   []bool{},
	}
	for i := 0; i < len(r.Jobs); i += every {
		j := &r.Jobs[i]
		d.ID, d.GPUs, d.Submit = append(d.ID, j.ID), append(d.GPUs, j.GPUs), append(d.Submit, seconds(j.Submit))
		d.Start = append(d.Start, optional(j.Start, j.Started))
		d.Finish = append(d.Finish, optional(j.Finish, j.Outcome != sim.Unfinished))
		d.Lost = append(d.Lost, j.Outcome == sim.Lost)
	}
	return d, every
}

// optional returns a time, or nil.
func optional(at time.Duration, is bool) *seconds {
	if !is {
		return nil
	}
	s := seconds(at)
	return &s
}

// timeline returns a result's samples. Of very many, it keeps those that determine the lines of
// queue length and utilization.
func timeline(r *sim.Result) timelineData {
	d := timelineData{At: []seconds{}, Waiting: []int{}, Running: []int{}, Busy: []float64{}, Capacity: []int{}}
	for _, i := range keySamples(r.Timeline) {
		m := &r.Timeline[i]
		d.At, d.Waiting, d.Running = append(
			d.At,
			seconds(m.At),
		), append(
			d.Waiting,
			m.Waiting+m.Held,
		), append(
			d.Running,
			m.Running,
		)
		d.Busy, d.Capacity = append(d.Busy, busy(m)), append(d.Capacity, m.Capacity)
	}
	return d
}

// keySamples returns the indices to keep: of each group of neighbours the first and the last, and
// the minima and maxima of queue length and utilization.
func keySamples(samples []sim.Sample) (kept []int) {
	group := max((len(samples)*6+maxSamples-1)/maxSamples, 1)
	if len(samples) <= maxSamples {
		group = 1
	}
	for from := 0; from < len(samples); from += group {
		to := min(from+group, len(samples))
		keep := map[int]bool{from: true, to - 1: true}
		for _, value := range []func(m *sim.Sample) float64{waiting, busy} {
			least, most := from, from
			for i := from; i < to; i++ {
				if value(&samples[i]) < value(&samples[least]) {
					least = i
				}
				if value(&samples[i]) > value(&samples[most]) {
					most = i
				}
			}
			keep[least], keep[most] = true, true
		}
		for i := from; i < to; i++ {
			if keep[i] {
				kept = append(kept, i)
			}
		}
	}
	return kept
}

// ganttOf returns bars in columns.
func ganttOf(r *sim.Result, all []bar) ganttData {
	d := ganttData{
		Job:       []cluster.JobID{},
		From:      []seconds{},
		To:        []seconds{},
		Row:       []int{},
		Rows:      []int{},
		Preempted: []bool{},
	}
	for _, b := range all {
		run := &r.Runs[b.run]
		d.Job, d.From, d.To = append(d.Job, run.Job), append(d.From, seconds(run.From)), append(d.To, seconds(run.To))
		d.Row, d.Rows, d.Preempted = append(d.Row, b.row), append(d.Rows, b.rows), append(d.Preempted, run.Preempted)
	}
	return d
}
