package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/humanize"
)

// maxCommand is how much of a command line a table shows.
const maxCommand = 60

// Without returns the view without the programs for which a condition on their pids holds.
func (v View) Without(holds func(pid uint32) bool) View {
	v.Programs = slices.DeleteFunc(slices.Clone(v.Programs), func(p programView) bool { return holds(p.PID) })
	return v
}

// Kinds returns the programs as values for JSON, each with a kind.
func (v View) Kinds(kind string) []any {
	all := make([]any, 0, len(v.Programs))
	for _, p := range v.Programs {
		all = append(all, struct {
			Kind string `json:"kind"`
			programView
		}{kind, p})
	}
	return all
}

// PS prints a row for each program, those of one tree one after the other.
func (v View) PS(to io.Writer) error {
	if len(v.Programs) == 0 {
		_, err := fmt.Fprintln(to, v.noProgramsText())
		return err
	}
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "TREE\tPID\tJOB\tUSER\tGPU\tMEMORY\tSTATE\tSAVED\tIMAGE\tCOMMAND\n")
	for _, p := range v.byTree() {
		fmt.Fprintf(
			out,
			"%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			p.RootPID,
			p.PID,
			humanize.Shorten(p.Job, 24),
			p.User,
			numbersText(p.GPUs),
			humanize.Bytes(p.MemoryBytes),
			p.stateText(),
			p.checkpointText(),
			p.imageText(),
			humanize.Shorten(p.Command, maxCommand),
		)
	}
	return out.Flush()
}

// byTree returns the programs in the order of their trees and pids.
func (v View) byTree() []programView {
	return slices.SortedFunc(slices.Values(v.Programs), func(a, b programView) int {
		return cmp.Or(cmp.Compare(a.RootPID, b.RootPID), cmp.Compare(a.PID, b.PID))
	})
}

// imageText returns the directory of the last image, or a dash.
func (p programView) imageText() string {
	switch {
	case p.Checkpoint.Dir != "":
		return p.Checkpoint.Dir
	case p.LastCheckpoint != nil:
		return "(a stream)"
	}
	return "-"
}
