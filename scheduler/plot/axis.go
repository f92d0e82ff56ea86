package plot

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
)

// unit is a unit of time.
type unit struct {
	name string
	long time.Duration
}

var units = []unit{{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}, {"days", 24 * time.Hour}}

// unitFor returns the unit in which a span of seconds is a readable number.
func unitFor(seconds float64) unit {
	fit := units[0]
	for _, u := range units[1:] {
		if seconds >= 4*u.long.Seconds() {
			fit = u
		}
	}
	return fit
}

// roundNumbers returns about six round numbers between two others.
func roundNumbers(least, most float64) (at []float64) {
	if !(most > least) {
		return []float64{least}
	}
	rough := (most - least) / 6
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, times := range []float64{1, 2, 2.5, 5, 10} {
		if times*step >= rough {
			step *= times
			break
		}
	}
	for k := math.Ceil(least/step - 1e-9); k*step <= most+step*1e-9; k++ {
		at = append(at, k*step+0) // + 0 turns -0 into 0
	}
	return at
}

// number returns a tick's label.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + " M"
	case math.Abs(v) >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + " k"
	}
	return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'g', 6, 64)
}

// timeTicks returns ticks for seconds, labelled in a unit.
func timeTicks(u unit) plot.TickerFunc {
	return func(least, most float64) (ticks []plot.Tick) {
		long := u.long.Seconds()
		for _, v := range roundNumbers(least/long, most/long) {
			ticks = append(ticks, plot.Tick{Value: v * long, Label: number(v)})
		}
		return ticks
	}
}

// countTicks returns ticks at whole numbers.
func countTicks(least, most float64) (ticks []plot.Tick) {
	for _, v := range roundNumbers(least, most) {
		if v == math.Trunc(v) {
			ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
		}
	}
	return ticks
}

// numberTicks returns ticks for any numbers.
func numberTicks(least, most float64) (ticks []plot.Tick) {
	for _, v := range roundNumbers(least, most) {
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return ticks
}

// shareTicks returns ticks for shares in percent.
func shareTicks(least, most float64) (ticks []plot.Tick) {
	for _, v := range roundNumbers(least, most) {
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v*100) + " %"})
	}
	return ticks
}

// marks are the ticks of a logarithmic time axis, each about ten times the one before.
var marks = []struct {
	at    time.Duration
	label string
}{
	{time.Millisecond, "1 ms"},
	{10 * time.Millisecond, "10 ms"},
	{100 * time.Millisecond, "0.1 s"},
	{time.Second, "1 s"},
	{10 * time.Second, "10 s"},
	{time.Minute, "1 min"},
	{10 * time.Minute, "10 min"},
	{time.Hour, "1 h"},
	{6 * time.Hour, "6 h"},
	{24 * time.Hour, "1 day"},
	{7 * 24 * time.Hour, "1 week"},
	{30 * 24 * time.Hour, "30 days"},
	{365 * 24 * time.Hour, "1 year"},
	{10 * 365 * 24 * time.Hour, "10 years"},
	{100 * 365 * 24 * time.Hour, "100 years"},
}

// fineMarks are between the marks.
var fineMarks = fine()

// fewMarks is the number of marks below which an axis has the fine ones too.
const fewMarks = 6

// fine returns two marks, in round numbers, between each of the marks and the next.
func fine() (all []time.Duration) {
	for _, each := range []struct {
		unit  time.Duration
		times []time.Duration
	}{
		{time.Millisecond, []time.Duration{2, 5, 20, 50, 200, 500}},
		{time.Second, []time.Duration{2, 5, 20, 40}},
		{time.Minute, []time.Duration{2, 5, 20, 40}},
		{time.Hour, []time.Duration{2, 4, 12}},
		{24 * time.Hour, []time.Duration{2, 4, 14, 90, 180, 2 * 365, 5 * 365, 20 * 365, 50 * 365}},
	} {
		for _, n := range each.times {
			all = append(all, n*each.unit)
		}
	}
	return all
}

// logTicks returns ticks for logarithms of seconds. Those between the marks have labels if there
// are few marks.
func logTicks(least, most float64) (ticks []plot.Tick) {
	within := func(d time.Duration) (at float64, ok bool) {
		at = math.Log(d.Seconds())
		return at, at >= least-0.001 && at <= most+0.001
	}
	for _, m := range marks {
		if at, ok := within(m.at); ok {
			ticks = append(ticks, plot.Tick{Value: at, Label: m.label})
		}
	}
	labelled := len(ticks) < fewMarks
	for _, d := range fineMarks {
		if at, ok := within(d); ok {
			tick := plot.Tick{Value: at}
			if labelled {
				tick.Label = markLabel(d)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// markLabel formats a time in the largest unit of which it is a multiple.
func markLabel(d time.Duration) string {
	for _, u := range []unit{
		{"years", 365 * 24 * time.Hour},
		{"days", 24 * time.Hour},
		{"h", time.Hour},
		{"min", time.Minute},
		{"s", time.Second},
	} {
		if d%u.long == 0 {
			return strconv.Itoa(int(d/u.long)) + " " + u.name
		}
	}
	return strconv.Itoa(int(d/time.Millisecond)) + " ms"
}

// logBounds widens a span of seconds to the nearest marks.
func logBounds(least, most float64) (low, high float64) {
	low, high = least*0.8, most*1.25
	for _, m := range marks {
		s := m.at.Seconds()
		if s <= least && s > least/8 {
			low = s
		}
		if s >= most && s < most*4 {
			high = s
			break
		}
	}
	return low, high
}
