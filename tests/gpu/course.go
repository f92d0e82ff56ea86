package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// course runs rows one after the other.
type course struct {
	machine *machine
	journal *journal
	again   bool
	limit   time.Duration
	left    []row // what did not fit in its part's time
}

func (c *course) run(ctx context.Context, rows []row) error {
	began := map[string]time.Time{}
	for _, r := range rows {
		if c.journal.shown(r, c.again) {
			continue
		}
		start, running := began[r.part]
		if running && time.Since(start) > c.limit-r.limit {
			c.left = append(c.left, r)
			continue
		}
		if !running {
			began[r.part] = time.Now()
		}
		o := c.show(ctx, r)
		if ctx.Err() != nil {
			return errors.New("interrupted; run it again to go on with the row " + r.part + "/" + r.name)
		}
		if err := c.journal.add(o); err != nil {
			return err
		}
		fmt.Println(line(o))
	}
	return nil
}

// show runs one row.
func (c *course) show(ctx context.Context, r row) outcome {
	o := outcome{Part: r.part, Name: r.name, At: time.Now().UTC().Truncate(time.Second)}
	if o.Why = c.machine.missing(r); o.Why != "" {
		o.Verdict = impossible
		return o
	}
	fmt.Printf("%-10s %s/%s …\n", "run", r.part, r.name)
	within, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	start := time.Now()
	figures, err := r.show(within, c.machine)
	o.Seconds, o.Figures, o.Verdict = time.Since(start).Seconds(), figures, passed
	var s skip
	switch {
	case errors.As(err, &s):
		o.Verdict, o.Why = skipped, s.why
	case err != nil:
		o.Verdict, o.Why = failed, err.Error()
	}
	return o
}
