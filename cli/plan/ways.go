package plan

import (
	"flag"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/ways"
)

// costsFlags are the flags by which ways to go on are compared.
type costsFlags struct {
	pause, horizon time.Duration
	bandwidth      bytesValue
}

// flags defines the flags; more is what else the texts of some say.
func (c *costsFlags) flags(flags *flag.FlagSet, pause, bandwidth string) {
	usual := ways.Usual
	c.bandwidth = bytesValue(usual.BytesPerSecond)
	flags.DurationVar(&c.pause, "pause", usual.Pause, "`TIME` for a re-plan"+pause)
	flags.Var(&c.bandwidth, "bandwidth", "`BYTES` per second of a node's link, such as 25GB"+bandwidth)
	flags.DurationVar(&c.horizon, "horizon", usual.Horizon, "expected `TIME` until the next change; 0: send the fewest bytes")
}

// read returns the costs.
func (c *costsFlags) read() (ways.Costs, error) {
	if c.pause < 0 || c.horizon < 0 {
		return ways.Costs{}, &verb.UsageError{Text: "a time is negative"}
	}
	if longest := max(c.pause, c.horizon); longest > ways.MaxHorizon {
		return ways.Costs{}, &verb.UsageError{Text: fmt.Sprintf("a time is %v; want at most %v", longest, ways.MaxHorizon)}
	}
	if c.bandwidth <= 0 {
		return ways.Costs{}, &verb.UsageError{Text: "--bandwidth is 0"}
	}
	return ways.Costs{Pause: c.pause, BytesPerSecond: int64(c.bandwidth), Horizon: c.horizon}, nil
}

// wayView is the JSON output for a way that was compared.
type wayView struct {
	Way        string    `json:"way"`
	Iteration  jsonMilli `json:"iteration_ms"`
	Bytes      int64     `json:"bytes"`
	Copying    jsonMilli `json:"copying_ms"`
	Iterations float64   `json:"iterations"`
}

// wayViews returns what was compared, the chosen way first.
func wayViews(found []ways.Candidate) (views []wayView) {
	for _, each := range found {
		views = append(views, wayView{
			each.Way, jsonMilli(each.Result.Plan.IterationTime()), each.Result.Bytes, jsonMilli(each.Copying), each.Iterations(),
		})
	}
	return views
}

// printWays prints why a way was chosen, if there were others.
func printWays(to verb.Streams, found []ways.Candidate, horizon time.Duration) {
	for i, each := range found {
		if horizon == 0 || len(found) == 1 || each.Result.Plan.Hash() == found[0].Result.Plan.Hash() && i > 0 {
			continue
		}
		what := "chosen: "
		if i > 0 {
			what = "not chosen: "
		}
		fmt.Fprintf(to.Out, "%s%s, %.1f iterations of %s ms in %s\n", what, each.Way, each.Iterations(),
			pipeline.Milliseconds(each.Result.Plan.IterationTime()), humanize.Age(horizon))
	}
}
