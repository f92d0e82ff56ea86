package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// maxGroups is how many users are printed; summary.json has all.
const maxGroups = 10

// printFigures prints distributions, fairness and the figures by user, class and priority.
func printFigures(to io.Writer, m *sim.Summary) error {
	f := m.Figures
	if f == nil || m.N == 0 {
		return nil
	}
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "\n\tMEAN\tMEDIAN\tP95\tP99\tMAX") // Flush returns the error, here and below
	for _, each := range []struct {
		name   string
		values sim.Distribution
		format func(float64) string
	}{
		{"JCT", f.JCT, span},
		{"wait", f.Wait, span},
		{"slowdown", f.Slowdown, ratio},
		{"bounded slowdown", f.BoundedSlowdown, ratio},
		{"finish-time fairness", f.FinishTimeFairness, ratio},
	} {
		d := each.values
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", each.name, each.format(d.Mean), each.format(d.Median),
			each.format(d.P95), each.format(d.P99), each.format(d.Max))
	}
	if f.Users > 1 {
		fmt.Fprintf(out, "\nJain's fairness index of %d users: %.3f\n", f.Users, f.FairnessIndex)
	}
	byUse := slices.Clone(f.ByUser)
	slices.SortStableFunc(byUse, func(a, b sim.Group) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	printGroups(out, "USER", byUse)
	printGroups(out, "CLASS", f.ByClass)
	printGroups(out, "PRIORITY", f.ByPriority)
	return out.Flush()
}

// printGroups prints a row for each group, if there is more than one.
func printGroups(out io.Writer, title string, all []sim.Group) {
	if len(all) < 2 {
		return
	}
	fmt.Fprintf(out,
		"\n%s\tJOBS\tGPU HOURS\tMEAN JCT\tP99 JCT\tMEAN WAIT\tMEAN BOUNDED SLOWDOWN\tPREEMPTIONS\tRECEIVED\n", title)
	for i := range all[:min(len(all), maxGroups)] {
		g := &all[i]
		fmt.Fprintf(out, "%s\t%d\t%.1f\t%s\t%s\t%s\t%s\t%d\t%.1f %%\n", humanize.Shorten(g.Name, 40), g.Jobs, g.GPUHours,
			span(g.AvgJCT), span(g.P99JCT), span(g.AvgWait), ratio(g.BoundedSlowdown), g.Preemptions,
			100*g.Received)
	}
	if more := len(all) - maxGroups; more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
}

// ratio formats a number without a unit.
func ratio(x float64) string { return fmt.Sprintf("%.2f", x) }

// figureColumns are the last columns of compare.csv.
func figureColumns(f *sim.Figures) (columns []string) {
	if f == nil {
		f = &sim.Figures{}
	}
	for _, value := range []float64{
		f.JCT.P95, f.Wait.Mean, f.Wait.P99, f.Slowdown.Mean, f.BoundedSlowdown.Mean, f.BoundedSlowdown.P99,
		f.FinishTimeFairness.Mean, f.FinishTimeFairness.Max, f.FairnessIndex, f.GPUHours,
	} {
		columns = append(columns, decimal(value))
	}
	return columns
}
