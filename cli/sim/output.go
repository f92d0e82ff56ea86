package sim

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/memlimit"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// output is where results go.
type output struct {
	dir        string
	json       bool
	noPictures bool
	events     string // of sim run
}

// flags defines the flags for the results.
func (o *output) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.dir, "out", "", "`DIR` for the results; default: only print the summary")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.noPictures, "no-pictures", false, "write no charts")
}

// pictures reports whether charts are written.
func (o *output) pictures() bool { return o.dir != "" && !o.noPictures }

// interrupted returns the error of a simulation that was cut off.
func (o *output) interrupted() error {
	if o.dir == "" {
		return errors.New("interrupted: the results shown are partial")
	}
	return fmt.Errorf("interrupted: the results so far are in %s, marked partial", o.dir)
}

// deliver writes a result's files atomically.
func (o *output) deliver(result *sim.Result, s *settings, model *modelView) error {
	if o.dir == "" {
		return nil
	}
	return sim.Deliver(o.dir, func(staging string) error {
		if err := result.Write(staging); err != nil {
			return err
		}
		memlimit.Fit()
		return o.draw(result, s, model, staging)
	})
}

// report prints the summary.
func (o *output) report(to verb.Streams, result *sim.Result, s *settings, model *modelView) error {
	if o.json {
		return printJSON(to.Out, &result.Summary)
	}
	m := &result.Summary
	gpus := 0
	for i := range result.Nodes {
		gpus += result.Nodes[i].GPUs
	}
	out := &lines{to: to.Out}
	out.line(
		"%s, profile %s, on %s",
		s.label(),
		s.Profile,
		humanize.Count(gpus, "GPU", "GPUs")+" of "+humanize.Count(len(result.Nodes), "node", "nodes"),
	)
	jobs := humanize.Count(m.N, "job", "jobs")
	if m.Unfinished > 0 {
		jobs += fmt.Sprintf(", and %d that did not end", m.Unfinished)
	}
	if m.Lost > 0 {
		jobs += fmt.Sprintf(", of which %d failed too often", m.Lost)
	}
	if m.Partial {
		jobs += "; PARTIAL, it was cut off"
	}
	out.line("jobs              %s", jobs)
	for _, note := range s.trace.notes() {
		out.line("trace             %s", note)
	}
	out.line("mean JCT          %s", span(m.AvgJCT))
	out.line("median JCT        %s", span(m.MedianJCT))
	out.line("p99 JCT           %s", span(m.P99JCT))
	out.line("mean start delay  %s", span(m.AvgStartDelay))
	out.line("makespan          %s", span(m.Makespan))
	out.line("preemptions       %d", m.Preemptions)
	out.line("GPU utilization   %.1f %%", 100*m.GPUUtilisation)
	if model != nil {
		out.line("model             %s", model)
	}
	if out.err == nil {
		out.err = printFigures(to.Out, m)
	}
	if o.dir != "" {
		out.line("")
		out.line("written           %s", o.dir)
	}
	return out.err
}

// label returns a short name of the policies.
func (s *settings) label() string {
	text := s.Order
	for _, each := range []struct{ name, usual string }{
		{s.Placement, "first-free"}, {s.Admission, "all"}, {s.Backfill, "none"},
	} {
		if each.name != "" && each.name != each.usual {
			text += " + " + each.name
		}
	}
	return text
}

// span formats a time: in hours and minutes if it is long. Files have all digits.
func span(seconds float64) string {
	if seconds >= 120 && seconds < 1e9 {
		return time.Duration(seconds * 1e9).Round(time.Second).String()
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// lines writes lines until an error occurs.
type lines struct {
	to  io.Writer
	err error
}

// line writes a formatted line, unless an earlier one failed.
func (l *lines) line(format string, values ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.to, format+"\n", values...)
	}
}

func printJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// bar shows the progress of long work: by simulated time if its end is known, else by the number of
// jobs that have ended.
type bar struct {
	shown *terminal.Bar
	end   time.Duration // 0 if unknown
}

// newBar returns a bar for a simulation that ends at a time; 0 if that is unknown.
func (o *output) newBar(to verb.Streams, end time.Duration) *bar {
	return &bar{terminal.NewLateCounter(to.Err, unitOf(end)), end}
}

// unitOf returns what a bar counts: simulated seconds, or jobs if end is 0.
func unitOf(end time.Duration) string {
	if end > 0 {
		return "simulated s"
	}
	return "jobs"
}

// progress returns a callback that updates the bar.
func (b *bar) progress(phase string) progress {
	return func(ended, total int, now time.Duration) {
		if b.end > 0 {
			ended, total = int(now/time.Second), int(b.end/time.Second)
		}
		b.shown.Step(phase, uint64(ended), uint64(total))
	}
}

func (b *bar) close() { b.shown.Clear() }
