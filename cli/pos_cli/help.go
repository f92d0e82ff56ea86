package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/phos-gpu/phos/daemon/rpc"
)

var helpVerb = verb{
	name: "help", word: true,
	arguments: "[VERB]",
	summary:   "explain pos_cli or one of its verbs",
	about:     `Explains a verb and its flags; without one, lists the verbs.`,
}

// The help verb shows the table that it stands in, so it is completed here.
func init() {
	helpVerb.prepare = func(*flag.FlagSet) func(context.Context, streams, []string) error {
		return func(_ context.Context, to streams, arguments []string) error {
			if len(arguments) == 0 {
				return overview(to.out)
			}
			name := trimDashes(strings.Join(arguments, " "))
			chosen := find(name)
			if chosen == nil {
				return &usageError{fmt.Sprintf("there is no verb %q; see: pos_cli --help", name)}
			}
			return helpOn(to.out, chosen)
		}
	}
}

func trimDashes(name string) string {
	for len(name) > 0 && name[0] == '-' {
		name = name[1:]
	}
	return name
}

func overview(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "pos_cli %s: run CUDA programs through phosd\n\n", rpc.Version)
	for _, each := range verbs() {
		fmt.Fprintf(out, "  pos_cli %s\t%s\n", synopsis(each), each.summary)
	}
	fmt.Fprintf(out, "\nA program runs through phosd with:\n\n  eval \"$(pos_cli --env)\"\n  env $phos PROGRAM\n\n"+
		"The socket is %s, or what %s says.\n"+
		"Exit status: 0 done, 1 failed, 2 wrong command line, 3 no phosd answers. More: pos_cli help VERB\n",
		rpc.DefaultSocket, rpc.SocketVariable)
	return out.Flush()
}

func synopsis(v *verb) string {
	if v.arguments == "" {
		return v.spoken()
	}
	return v.spoken() + " " + v.arguments
}

func helpOn(to io.Writer, v *verb) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "pos_cli %s: %s\n\n%s\n", synopsis(v), v.summary, v.about)
	first := true
	for _, each := range flagsOf(v) {
		if first {
			fmt.Fprintf(out, "\nFlags:\n")
			first = false
		}
		value, usage := flag.UnquoteUsage(each)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(out, "  --%s%s\t%s\n", each.Name, value, usage)
	}
	return out.Flush()
}

// flagsOf lists a verb's flags in the order of the alphabet.
func flagsOf(v *verb) []*flag.Flag {
	flags := flag.NewFlagSet(v.name, flag.ContinueOnError)
	v.prepare(flags)
	var all []*flag.Flag
	flags.VisitAll(func(each *flag.Flag) { all = append(all, each) })
	return all
}
