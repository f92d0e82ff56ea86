package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// course runs rows one after the other.
type course struct {
	machine *machine
	journal *journal
	report  report
	again   bool
	part    time.Duration // for all rows of a part
	whole   time.Duration // for all parts; 0 means without limit
	began   time.Time
	left    []row // rows that did not fit
}

// errInterrupted is the error of a course that was interrupted.
var errInterrupted = errors.New("interrupted; run it again to continue")

// plan prints what will be run, and how long it may take.
func (c *course) plan(w io.Writer, rows []row) {
	for _, part := range parts(rows) {
		var about time.Duration
		var todo, done int
		for _, r := range rows {
			switch {
			case r.part != part:
			case c.journal.shown(r, c.again):
				done++
			default:
				todo++
				if c.machine.missing(r) == "" {
					about += c.journal.about(r)
				}
			}
		}
		fmt.Fprintf(w, "%-10s %-11s %2d rows, about %s", "plan", part, todo, minutes(about))
		if done > 0 {
			fmt.Fprintf(w, "; %d were shown before", done)
		}
		fmt.Fprintln(w)
	}
}

// minutes formats an estimated duration.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

func (c *course) run(ctx context.Context, rows []row) error {
	began, spent := map[string]time.Time{}, map[string]bool{}
	for _, r := range rows {
		if c.journal.shown(r, c.again) {
			continue
		}
		if _, running := began[r.part]; !running {
			began[r.part] = time.Now()
		}
		ends, whole := c.ends(began[r.part])
		// A row that gets all the time of a part is always tried: it cannot get more.
		alone := whole && !spent[r.part]
		possible := c.machine.missing(r) == ""
		if possible && !alone && time.Until(ends) < c.journal.about(r) {
			c.left = append(c.left, r)
			continue
		}
		spent[r.part] = spent[r.part] || possible
		o := c.show(ctx, r, ends, alone)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err := c.keep(o, rows); err != nil {
			return err
		}
		if o.Verdict == cutOff {
			c.left = append(c.left, r)
		}
	}
	return nil
}

// ends returns the deadline of a part, and whether the part has its full time.
func (c *course) ends(partBegan time.Time) (ends time.Time, whole bool) {
	ends = partBegan.Add(c.part)
	if all := c.began.Add(c.whole); c.whole > 0 && all.Before(ends) {
		return all, false
	}
	return ends, true
}

// keep stores an outcome in the journal and in the table.
func (c *course) keep(o outcome, rows []row) error {
	if err := c.journal.add(o); err != nil {
		return err
	}
	fmt.Println(line(o))
	return c.report.write(c.journal.of(rows))
}

// show runs one row. A row that is cut off by the end of its part's time is left for the next run,
// unless it had all of that time.
func (c *course) show(ctx context.Context, r row, ends time.Time, alone bool) outcome {
	o := outcome{Part: r.part, Name: r.name, At: time.Now().UTC().Truncate(time.Second)}
	if o.Why = c.machine.missing(r); o.Why != "" {
		o.Verdict = impossible
		return o
	}
	fmt.Printf("%-10s %s/%s, about %s …\n", "run", r.part, r.name, minutes(c.journal.about(r)))
	start := time.Now()
	own := start.Add(r.limit)
	deadline := own
	if ends.Before(own) {
		deadline = ends
	}
	within, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	figures, err := r.show(within, c.machine)
	o.Seconds, o.Figures, o.Verdict = time.Since(start).Seconds(), figures, passed
	var s skip
	switch {
	case within.Err() != nil && ctx.Err() == nil:
		o.Verdict, o.Why = failed, fmt.Sprintf("not done after %.0f s", o.Seconds)
		if ends.Before(own) && !alone {
			o.Verdict = cutOff
		}
		if err != nil {
			o.Why += "\n" + err.Error()
		}
	case errors.As(err, &s):
		o.Verdict, o.Why = skipped, s.why
	case err != nil:
		o.Verdict, o.Why = failed, err.Error()
	}
	return o
}
