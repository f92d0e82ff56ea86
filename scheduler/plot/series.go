package plot

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/sim"
)

// series is a value that changes at times and stays in between. Times are seconds and rise.
type series struct{ x, y []float64 }

// seriesOf is a series of a result's moments.
func seriesOf(r *sim.Result, value func(m *sim.Sample) float64) (s series) {
	for i := range r.Timeline {
		m := &r.Timeline[i]
		x, y := m.At.Seconds(), value(m)
		if n := len(s.x); n > 0 && s.x[n-1] == x {
			s.y[n-1] = y
			continue
		}
		s.x, s.y = append(s.x, x), append(s.y, y)
	}
	return s
}

// thin keeps of each of so many equal stretches the first, least, greatest and last value, in their
// order. A line through them looks the same where a stretch is no wider than a pixel.
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

// end is the time of a result's last moment, in seconds.
func end(r *sim.Result) float64 {
	if len(r.Timeline) == 0 {
		return 0
	}
	return r.Timeline[len(r.Timeline)-1].At.Seconds()
}

// waiting is the length of the queue: jobs that are admitted and those that are not yet.
func waiting(m *sim.Sample) float64 { return float64(m.Waiting + m.Held) }

// busy is how many GPUs are held; a share counts as such.
func busy(m *sim.Sample) float64 { return float64(m.BusyMilli) / 1000 }

// capacity is how many GPUs there are.
func capacity(m *sim.Sample) float64 { return float64(m.Capacity) }

// completions are the completion times of the jobs that were done, sorted.
func completions(r *sim.Result) (jcts []time.Duration) {
	for i := range r.Jobs {
		if r.Jobs[i].Outcome == sim.Done {
			jcts = append(jcts, r.Jobs[i].JCT())
		}
	}
	slices.Sort(jcts)
	return jcts
}

// bar is a job on GPUs that are neighbours, for a while. Rows number the cluster's GPUs.
type bar struct {
	run       int // of Result.Runs
	row, rows int
}

// bars are the bars of a Gantt chart.
func bars(r *sim.Result) (all []bar) {
	first := rows(r)
	for i := range r.Runs {
		for _, gpu := range r.Runs[i].On {
			row := first[gpu.Node] + int(gpu.Index)
			if n := len(all); n > 0 && all[n-1].run == i && all[n-1].row+all[n-1].rows == row {
				all[n-1].rows++
				continue
			}
			all = append(all, bar{run: i, row: row, rows: 1})
		}
	}
	return all
}

// rows says in which row each node's GPUs begin; behind the last node, how many rows there are.
func rows(r *sim.Result) []int {
	first := make([]int, len(r.Nodes)+1)
	for i := range r.Nodes {
		first[i+1] = first[i] + r.Nodes[i].GPUs
	}
	return first
}
