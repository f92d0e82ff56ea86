package plot

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// series is a value that is constant between changes. Times are seconds, ascending.
type series struct{ x, y []float64 }

// seriesOf returns a value of a result's samples as a series.
func seriesOf(r *sim.Result, value func(m *sim.Sample) float64) (s series) {
	s.x, s.y = make([]float64, 0, r.Timeline.Len()), make([]float64, 0, r.Timeline.Len())
	for m := range r.Timeline.All() {
		x, y := m.At.Seconds(), value(&m)
		if n := len(s.x); n > 0 && s.x[n-1] == x {
			s.y[n-1] = y
			continue
		}
		s.x, s.y = append(s.x, x), append(s.y, y)
	}
	return s
}

// thin keeps, of each of so many equal intervals, the first, minimum, maximum and last value in
// their order. A line through them looks the same if an interval is no wider than a pixel.
func (s series) thin(stretches int) (t series) {
	n := len(s.x)
	if n <= 4*stretches || s.x[n-1] <= s.x[0] {
		return s
	}
	width := (s.x[n-1] - s.x[0]) / float64(stretches)
	for from := 0; from < n; {
		end := s.x[0] + width*(1+float64(int((s.x[from]-s.x[0])/width)))
		to, least, most := from, from, from
		for ; to < n && (to == from || s.x[to] < end); to++ {
			if s.y[to] < s.y[least] {
				least = to
			}
			if s.y[to] > s.y[most] {
				most = to
			}
		}
		keep := []int{from, least, most, to - 1}
		slices.Sort(keep)
		for _, k := range slices.Compact(keep) {
			t.x, t.y = append(t.x, s.x[k]), append(t.y, s.y[k])
		}
		from = to
	}
	return t
}

// end returns the time of a result's last sample, in seconds.
func end(r *sim.Result) float64 {
	last := r.Timeline.Last()
	return last.At.Seconds()
}

// waiting returns the queue length: admitted and held jobs.
func waiting(m *sim.Sample) float64 { return float64(m.Waiting + m.Held) }

// busy returns how many GPUs are in use; a share counts as that share.
func busy(m *sim.Sample) float64 { return float64(m.BusyMilli) / 1000 }

// capacity returns how many GPUs there are.
func capacity(m *sim.Sample) float64 { return float64(m.Capacity) }

// completions returns the sorted completion times of the finished jobs.
func completions(r *sim.Result) (jcts []time.Duration) {
	jcts = make([]time.Duration, 0, r.Jobs.Len())
	for i := range r.Jobs.Len() {
		if j := r.Jobs.Unplaced(i); j.Outcome == sim.Done {
			jcts = append(jcts, j.JCT())
		}
	}
	slices.Sort(jcts)
	return jcts
}

// bar is a job on adjacent GPUs for a time. Rows number the cluster's GPUs.
type bar struct {
	run       int // of Result.Runs
	row, rows int
}

// bars returns the bars of a Gantt chart, and whether there are more of later runs: a chart of all
// would be too large to look at.
func bars(r *sim.Result) (all []bar, more bool) {
	first := rows(r)
	for i := range r.Runs {
		if len(all) >= maxBars {
			return all, true
		}
		for _, gpu := range r.Runs[i].On {
			row := first[gpu.Node] + int(gpu.Index)
			if n := len(all); n > 0 && all[n-1].run == i && all[n-1].row+all[n-1].rows == row {
				all[n-1].rows++
				continue
			}
			all = append(all, bar{run: i, row: row, rows: 1})
		}
	}
	return all, r.RunsCut
}

// runsOf returns how many runs some bars show.
func runsOf(all []bar) int {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].run + 1
}

// rows returns the first row of each node, and behind the last node the number of rows.
func rows(r *sim.Result) []int {
	first := make([]int, len(r.Nodes)+1)
	for i := range r.Nodes {
		first[i+1] = first[i] + r.Nodes[i].GPUs
	}
	return first
}
