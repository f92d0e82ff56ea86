package training

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cluster/pipeline/draw"
	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/internal/words"
)

// maxName is how much of a name a row has, and maxPasses how many passes are drawn.
const (
	maxName   = 24
	maxPasses = 100_000
)

// printAll prints a training as tables.
func printAll(to io.Writer, s *progress.Status, losses []progress.Loss) error {
	var text bytes.Buffer
	printHead(&text, s)
	printStages(&text, s)
	printCopies(&text, s)
	printLosses(&text, losses)
	printEvents(&text, s.Events)
	_, err := text.WriteTo(to)
	return err
}

// printHead prints how far the training is.
func printHead(to io.Writer, s *progress.Status) {
	fmt.Fprintf(to, "step %d of %d", s.Step, s.Steps)
	if s.Step > 0 {
		fmt.Fprintf(to, ", loss %s, norm of the gradient %s", number(s.Loss), number(s.Norm))
	}
	fmt.Fprintf(to, "\na step by the plan takes %s", seconds(float64(s.Plan.IterationTime())/1e9))
	if s.Seconds > 0 {
		fmt.Fprintf(to, ", measured %s; %s left", seconds(s.Seconds), seconds(s.Seconds*float64(s.Steps-s.Step)))
	}
	fmt.Fprintf(to, "\n%s; %d may be lost at once", humanize.Count(len(s.Ranks), "rank", "ranks"), s.Plan.Spec.Faults)
	if s.Faults > s.Plan.Spec.Faults {
		fmt.Fprintf(to, ", %d are wanted: more ranks are needed for that", s.Faults)
	}
	fmt.Fprintln(to)
}

// number formats a number that may be none.
func number(n *float64) string {
	if n == nil {
		return "not finite"
	}
	return fmt.Sprintf("%.4f", *n)
}

// seconds formats a time.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return humanize.Age(d)
}

// table prints a table below an empty line.
func table(to io.Writer, head string, rows func(row func(format string, values ...any))) {
	fmt.Fprintln(to)
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, head)
	rows(func(format string, values ...any) { fmt.Fprintf(out, format+"\n", values...) })
	_ = out.Flush() // to a buffer
}

// printStages prints which rank has which stage.
func printStages(to io.Writer, s *progress.Status) {
	table(to, "PIPELINE\tMICROBATCHES\tSTAGE\tRANK\tHOST\tREPLICA\tPID\tLAYERS\tCOMPUTES", func(row func(string, ...any)) {
		for number, each := range s.Plan.Pipelines {
			for i, stage := range s.Plan.Template(each.Template).Stages {
				rank := s.Of(each.Nodes[stage.Node])
				row("%d\t%d\t%d\t%s\t%d–%d\t%s", number, each.Microbatches, i, place(rank), stage.From, stage.To-1, computes(s, rank))
			}
		}
		for _, node := range s.Plan.Spare {
			row("spare\t-\t-\t%s\t-\t-", place(s.Of(node)))
		}
	})
}

// place is a rank with where it is.
func place(r progress.Rank) string {
	replica := "-"
	if r.Replica != "" {
		replica = humanize.Shorten(r.Replica, maxName)
	}
	return fmt.Sprintf("%d\t%s\t%s\t%d", r.Rank, humanize.Shorten(r.Host, maxName), replica, r.PID)
}

// computes says in which part of the last step a rank computed.
func computes(s *progress.Status, r progress.Rank) string {
	share := s.Share(r)
	if share == 0 {
		return "-"
	}
	const percent = 100
	return fmt.Sprintf("%.0f%%", percent*share)
}

// printCopies prints which ranks have each layer.
func printCopies(to io.Writer, s *progress.Status) {
	table(to, "LAYERS\tCOPIES\tRANKS", func(row func(string, ...any)) {
		for _, each := range s.Copies() {
			row("%d–%d\t%d\t%s", each.First, each.Last, len(each.Ranks), words.Numbers(each.Ranks))
		}
	})
}

// printLosses prints what the loss of each rank would do.
func printLosses(to io.Writer, losses []progress.Loss) {
	if len(losses) == 0 {
		return
	}
	table(to, "IF LOST\tCOPIED\tA STEP THEN\tMORE MAY BE LOST\t", func(row func(string, ...any)) {
		for _, each := range losses {
			what := "rank " + words.Numbers(each.Ranks)
			if each.Host != "" {
				what = fmt.Sprintf("%s: %s", humanize.Shorten(each.Host, maxName), words.Numbers(each.Ranks))
			}
			if each.Problem != "" {
				row("%s\t-\t-\t-\tthe training ends: %s", what, each.Problem)
				continue
			}
			note := ""
			if len(each.Layers) > 0 {
				note = "layers " + words.Numbers(each.Layers) + " would be lost: the training ends"
			}
			row("%s\t%s\t%s\t%d\t%s", what, humanize.Bytes(uint64(each.Bytes)), seconds(float64(each.IterationNS)/1e9),
				each.Faults, note)
		}
	})
}

// printEvents prints what has happened, the last first.
func printEvents(to io.Writer, events []progress.Event) {
	table(to, "WHEN\tSTEP\tTOOK\tCOPIED\tMICROBATCHES LEFT\tWHAT", func(row func(string, ...any)) {
		for i := len(events) - 1; i >= 0; i-- {
			e := &events[i]
			row("%s\t%d\t%s\t%s\t%d\t%s", e.Time().Format(time.DateTime), e.Step, seconds(e.Seconds),
				humanize.Bytes(uint64(max(0, e.Bytes))), e.Microbatches, humanize.Printable(e.Text()))
		}
	})
}

// writeChart draws an iteration of the slowest pipeline.
func writeChart(path string, s *progress.Status) error {
	slowest := s.Plan.Pipelines[s.Slowest()]
	if stages := len(s.Plan.Template(slowest.Template).Stages); slowest.Microbatches > maxPasses/2/stages {
		return fmt.Errorf("%s: %d microbatches on %d stages are too many to draw", path, slowest.Microbatches, stages)
	}
	var chart bytes.Buffer
	if err := draw.Iteration(&chart, s.Plan.Profile, s.Plan.Template(slowest.Template), slowest.Microbatches); err != nil {
		return err
	}
	return os.WriteFile(path, chart.Bytes(), 0o644)
}
