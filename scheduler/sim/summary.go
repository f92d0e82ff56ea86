package sim

import (
	"math"
	"slices"
	"time"
)

// Summary summarizes a result. All numbers are of the tracked jobs, except Preemptions and
// GPUUtilisation, which are of the whole simulation.
type Summary struct {
	// Partial simulations were cut off; their numbers are those of the jobs that had ended by then.
	Partial bool `json:"partial"`

	// N jobs have ended; Lost of them failed too often. Unfinished jobs had not ended.
	N          int `json:"n"`
	Unfinished int `json:"unfinished"`
	Lost       int `json:"lost"`

	// Times from submission to the end. Percentiles are interpolated between the two nearest jobs.
	AvgJCT    float64 `json:"avg_jct_s"`
	MedianJCT float64 `json:"median_jct_s"`
	P99JCT    float64 `json:"p99_jct_s"`

	// Makespan is from the first submission to the last end.
	Makespan float64 `json:"makespan_s"`

	// AvgStartDelay is from submission to the first GPUs.
	AvgStartDelay float64 `json:"avg_start_delay_s"`

	// Preemptions are of all jobs until the simulation ended, TrackedPreemptions of the tracked ones.
	Preemptions        int `json:"preemptions"`
	TrackedPreemptions int `json:"tracked_preemptions"`
	Failures           int `json:"failures"`

	// GPUUtilisation is the share of the available GPU-time that jobs held, from the first submission
	// of any job to the end of the simulation.
	GPUUtilisation float64 `json:"gpu_utilisation"`

	// Figures are further quantities, in the same JSON object.
	*Figures

	// Configuration is what was simulated.
	Configuration any `json:"configuration"`
}

// sum adds durations without overflow: the nanoseconds of a million long jobs do not fit 64 bits.
type sum struct{ whole, nanos int64 }

func (s *sum) add(d time.Duration) {
	s.whole += int64(d / time.Second)
	s.nanos += int64(d % time.Second)
}

// mean returns seconds; 0 if n is 0.
func (s *sum) mean(n int) float64 {
	if n == 0 {
		return 0
	}
	return toNanos((float64(s.whole) + float64(s.nanos)/1e9) / float64(n))
}

// summarize computes the summary of jobs.
func summarize(jobs *JobResults) (s Summary) {
	jcts := make([]time.Duration, 0, jobs.Len())
	var total, delay sum
	var first, last time.Duration
	started := 0
	for i := range jobs.Len() {
		j := jobs.Unplaced(i)
		if i == 0 || j.Submit < first {
			first = j.Submit
		}
		s.TrackedPreemptions += j.Preemptions
		s.Failures += j.Failures
		if j.Started {
			started++
			delay.add(j.Start - j.Submit)
		}
		if j.Outcome == Unfinished {
			s.Unfinished++
			continue
		}
		if j.Outcome == Lost {
			s.Lost++
		}
		s.N++
		total.add(j.JCT())
		jcts = append(jcts, j.JCT())
		last = max(last, j.Finish)
	}
	slices.Sort(jcts)
	s.AvgJCT, s.AvgStartDelay = total.mean(s.N), delay.mean(started)
	s.MedianJCT, s.P99JCT = percentile(jcts, 0.5), percentile(jcts, 0.99)
	if s.N > 0 {
		s.Makespan = (last - first).Seconds()
	}
	return s
}

// percentile returns seconds, interpolated between the two nearest of sorted durations.
func percentile(sorted []time.Duration, at float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := at * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	low, high := sorted[below].Seconds(), sorted[above].Seconds()
	return toNanos(low + (high-low)*(place-float64(below)))
}

// toNanos rounds seconds to nanoseconds, so that no meaningless digits are printed.
func toNanos(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }
