package view

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cluster/api"
)

// Widths of what a table shows of texts that users choose.
const (
	maxName   = 24
	maxReason = 60
)

// Launches prints a row for each launch.
func Launches(to io.Writer, launches []*api.Launch, now time.Time) error {
	buffered := bufio.NewWriter(to) // a tabwriter writes cell by cell
	out := tabwriter.NewWriter(buffered, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "ID\tNUMBER\tNAME\tOWNER\tSTATE\tREPLICAS\tGPUS\tNODES\tAGE\tSAVED\tREASON\n")
	for _, l := range launches {
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", humanize.Printable(l.GetId()), l.GetNumber(),
			humanize.Shorten(l.GetName(), maxName), humanize.Shorten(l.GetOwner(), maxName), State(l), replicasText(l),
			gpusText(l), nodesText(l), since(l.GetSubmittedUnixMs(), now), since(l.GetCheckpointUnixMs(), now),
			humanize.Shorten(l.GetReason(), maxReason))
	}
	return errors.Join(out.Flush(), buffered.Flush())
}

// State returns the phase of a launch, or how it has ended.
func State(l *api.Launch) string {
	switch {
	case l.GetResult() == "failed" && l.GetStatus() != 0:
		return fmt.Sprintf("failed (%d)", l.GetStatus())
	case l.GetResult() != "":
		return humanize.Printable(l.GetResult())
	}
	return humanize.Shorten(l.GetPhase(), maxName)
}

// replicasText returns how many replicas run, of how many.
func replicasText(l *api.Launch) string {
	running := 0
	for _, r := range l.GetReplicas() {
		if r.GetPhase() == "running" {
			running++
		}
	}
	return fmt.Sprintf("%d/%d", running, len(l.GetReplicas()))
}

// gpusText returns the GPUs that a launch has, or those that it waits for.
func gpusText(l *api.Launch) string {
	if l.GetGpus() == 0 && l.GetWantedGpus() > 0 {
		return fmt.Sprintf("0/%d", l.GetWantedGpus())
	}
	return fmt.Sprint(l.GetGpus())
}

// nodesText returns the nodes of a launch.
func nodesText(l *api.Launch) string {
	nodes := Nodes(l)
	if len(nodes) > 2 {
		return fmt.Sprintf("%s and %d more", humanize.Shorten(nodes[0], maxName), len(nodes)-1)
	}
	return humanize.Shorten(strings.Join(nodes, ","), 2*maxName)
}

// Nodes returns the names of the nodes where a launch is or was last.
func Nodes(l *api.Launch) (nodes []string) {
	for _, r := range l.GetReplicas() {
		if node := r.GetNode(); node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// since returns the time since another in its two largest units; a dash for 0.
func since(unixMS int64, now time.Time) string {
	if unixMS == 0 {
		return "-"
	}
	return humanize.Age(now.Sub(time.UnixMilli(unixMS)))
}

// Launch prints everything about one launch.
func Launch(to io.Writer, l *api.Launch, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(out, "%s\t%s\n", name, humanize.Printable(value))
		}
	}
	row("launch", fmt.Sprintf("%s (number %d)", l.GetId(), l.GetNumber()))
	row("name", l.GetName())
	row("description", l.GetDescription())
	row("owner", l.GetOwner())
	row("state", State(l))
	row("reason", l.GetReason())
	row("priority", cmp.Or(strings.TrimPrefix(fmt.Sprint(l.GetPriority()), "0"), "-"))
	row("GPUs", gpusText(l))
	row("submitted", at(l.GetSubmittedUnixMs(), now))
	row("started", at(l.GetStartedUnixMs(), now))
	row("saved", at(l.GetCheckpointUnixMs(), now))
	row("ended", at(l.GetEndedUnixMs(), now))
	if len(l.GetReplicas()) > 0 {
		fmt.Fprint(out, "\nREPLICA\tSTATE\tNODE\tGPUS\tATTEMPT\tRETRIES\tEXIT\n")
	}
	for _, r := range l.GetReplicas() {
		fmt.Fprintf(out, "%s.%d\t%s\t%s\t%s\t%d\t%d\t%s\n", humanize.Shorten(r.GetJob(), maxName), r.GetIndex(),
			humanize.Shorten(r.GetPhase(), maxName), humanize.Shorten(r.GetNode(), maxName), numbers(r.GetGpus()),
			r.GetAttempt(), r.GetRetries(), exitsText(r.GetExits()))
	}
	if len(l.GetImages()) > 0 {
		fmt.Fprint(out, "\nIMAGE\tGENERATION\tSAVED\tNODE\tMEMORY\tWRITTEN\tPAUSE\n")
	}
	for _, i := range l.GetImages() {
		fmt.Fprintf(out, "%s\t%d\t%s ago\t%s\t%s\t%s\t%s\n", humanize.Printable(i.GetDir()), i.GetGeneration(),
			since(i.GetUnixMs(), now), holdersText(i), humanize.Bytes(i.GetBytes()), humanize.Bytes(i.GetWrittenBytes()),
			humanize.Microseconds(i.GetPauseUs()))
	}
	return out.Flush()
}

// holdersText names the nodes that have an image.
func holdersText(i *api.Image) string {
	if i.GetShared() {
		return humanize.Shorten(i.GetNode(), maxName) + " (shared)"
	}
	var names []string
	for _, name := range append([]string{i.GetNode()}, i.GetCopies()...) {
		names = append(names, humanize.Shorten(name, maxName))
	}
	return strings.Join(names, ",")
}

// Images prints a row for each image of some launches.
func Images(to io.Writer, launches []*api.Launch, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "ID\tNAME\tATTEMPT\tGENERATION\tSAVED\tMEMORY\tNODES\tSTATE\n")
	for _, l := range launches {
		for _, i := range l.GetImages() {
			fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s ago\t%s\t%s\t%s\n", humanize.Printable(l.GetId()),
				humanize.Shorten(l.GetName(), maxName), i.GetAttempt(), i.GetGeneration(), since(i.GetUnixMs(), now),
				humanize.Bytes(i.GetBytes()), holdersText(i), imageState(i))
		}
	}
	return out.Flush()
}

// imageState says whether an image is needed, and whether it may be lost.
func imageState(i *api.Image) string {
	switch {
	case !i.GetCurrent():
		return "older"
	case i.GetRisk() != "":
		return "at risk: " + humanize.Printable(i.GetRisk())
	}
	return "current"
}

// at returns a time, and how long ago it was.
func at(unixMS int64, now time.Time) string {
	if unixMS == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", time.UnixMilli(unixMS).Format(time.DateTime), since(unixMS, now))
}

// numbers joins numbers by commas.
func numbers(all []uint32) string {
	var texts []string
	for _, each := range all {
		texts = append(texts, fmt.Sprint(each))
	}
	return cmp.Or(strings.Join(texts, ","), "-")
}

// exitsText says how the processes of a replica have ended.
func exitsText(exits []*api.Exit) string {
	var texts []string
	for _, e := range exits {
		texts = append(texts, exitText(e))
	}
	return cmp.Or(humanize.Printable(strings.Join(texts, ", ")), "-")
}

// exitText says how a process has ended.
func exitText(e *api.Exit) string {
	switch {
	case e.GetError() != "":
		return e.GetError()
	case e.GetOutOfMemory():
		return "out of memory"
	case e.GetSignal() != 0:
		return fmt.Sprintf("signal %d", e.GetSignal())
	case e.GetStopped():
		return "stopped"
	}
	return fmt.Sprintf("exit %d", e.GetCode())
}
