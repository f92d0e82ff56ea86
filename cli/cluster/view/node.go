package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

// NodeTable prints a row for each node.
func NodeTable(to io.Writer, nodes []*api.Node, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "NAME\tSTATE\tGPUS\tFREE\tMODEL\tCPUS\tMEMORY\tLAUNCHES\tSEEN\tLABELS\n")
	for _, n := range nodes {
		gpus := n.GetInventory().GetGpus()
		model := ""
		if len(gpus) > 0 {
			model = gpus[0].GetName()
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s\t%d\t%s\t%d\t%s\t%s\n", humanize.Shorten(n.GetName(), maxReason), NodeState(n),
			len(gpus), free(gpus), humanize.Shorten(model, maxName), n.GetInventory().GetCpus(),
			humanize.Bytes(n.GetInventory().GetMemoryBytes()), len(n.GetLaunches()), since(n.GetSeenUnixMs(), now),
			humanize.Shorten(labelsText(n), maxReason))
	}
	return out.Flush()
}

// NodeState returns the state of a node, and what an administrator has said of it.
func NodeState(n *api.Node) string {
	state := humanize.Shorten(n.GetState(), maxName)
	switch {
	case n.GetDraining():
		return state + ", draining"
	case n.GetCordoned():
		return state + ", cordoned"
	}
	return state
}

// free counts the GPUs that a launch could get.
func free(gpus []*api.GPU) (count int) {
	for _, g := range gpus {
		if g.GetLaunch() == "" && g.GetForeign() == 0 && g.GetBad() == "" {
			count++
		}
	}
	return count
}

// labelsText returns the labels of a node as they are given.
func labelsText(n *api.Node) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(n.GetLabels())) {
		texts = append(texts, name+"="+n.GetLabels()[name])
	}
	return strings.Join(texts, ",")
}

// Node prints everything about one node.
func Node(to io.Writer, n *api.Node, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	i := n.GetInventory()
	for _, row := range [][2]string{
		{"node", n.GetName()},
		{"state", NodeState(n)},
		{"reason", n.GetReason()},
		{"address", n.GetAddress()},
		{"cluster", n.GetCluster()},
		{"shard", n.GetShard()},
		{"labels", labelsText(n)},
		{"seen", at(n.GetSeenUnixMs(), now)},
		{"agent", n.GetVersion()},
		{"phosd", cmp.Or(i.GetPhosdError(), i.GetPhosdVersion())},
		{"system", strings.TrimSpace(i.GetOs() + " " + i.GetKernel())},
		{"CPUs", fmt.Sprint(i.GetCpus())},
		{"memory", humanize.Bytes(i.GetMemoryBytes())},
		{"launches", strings.Join(n.GetLaunches(), " ")},
	} {
		if row[1] != "" {
			fmt.Fprintf(out, "%s\t%s\n", row[0], humanize.Printable(row[1]))
		}
	}
	if len(i.GetGpus()) > 0 {
		fmt.Fprint(out, "\nGPU\tNAME\tMEMORY\tIN USE\tSTATE\n")
	}
	for _, g := range i.GetGpus() {
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\n", g.GetIndex(), humanize.Shorten(g.GetName(), maxReason),
			humanize.Bytes(g.GetMemoryBytes()), humanize.Bytes(g.GetUsedBytes()), gpuState(g))
	}
	return out.Flush()
}

// gpuState says what a GPU is used for, or why it cannot be used.
func gpuState(g *api.GPU) string {
	switch {
	case g.GetBad() != "":
		return "bad: " + humanize.Shorten(g.GetBad(), maxReason)
	case g.GetLaunch() != "":
		return humanize.Printable(g.GetLaunch())
	case g.GetForeign() > 0:
		return humanize.Printable(messages.ForeignUse(g))
	}
	return "free"
}

// Users prints a row for each user.
func Users(to io.Writer, users []*api.User, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "NAME\tACCOUNT\tROLE\tROOT\tTOKEN ENDS\n")
	for _, u := range users {
		root, ends := "no", "-"
		if u.GetAllowRoot() {
			root = "allowed"
		}
		if expires := time.UnixMilli(u.GetExpiresUnixMs()); u.GetExpiresUnixMs() != 0 {
			ends = expires.Format(time.DateOnly)
			if expires.Before(now) {
				ends += " (over)"
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", humanize.Shorten(u.GetName(), maxReason),
			humanize.Shorten(u.GetAccount(), maxName), humanize.Shorten(u.GetRole(), maxName), root, ends)
	}
	return out.Flush()
}
