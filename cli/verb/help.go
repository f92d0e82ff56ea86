package verb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/phos-gpu/phos/daemon/api"
)

// helpName is the verb whose arguments are other verbs.
const helpName = "help"

// help returns the verb that explains the others.
func (s *Set) help() *Verb {
	return &Verb{
		Name: helpName, Word: true,
		Arguments: "[VERB]",
		Summary:   "explain pos_cli or one of its verbs",
		About:     `Explains a verb and its flags; without one, lists the verbs.`,
		Setup: func(*flag.FlagSet) func(context.Context, Streams, []string) error {
			return func(_ context.Context, to Streams, arguments []string) error { return s.explain(to.Out, arguments) }
		},
	}
}

// explain prints the help of the verb that the arguments name, or the overview without any.
func (s *Set) explain(to io.Writer, arguments []string) error {
	if len(arguments) == 0 {
		return s.overview(to)
	}
	name := trimDashes(strings.Join(arguments, " "))
	chosen := s.find(name)
	if about, later := s.Later[name]; later {
		_, err := fmt.Fprintf(to, "pos_cli --%s: %s; not built yet in version %s\n", name, about, api.Version)
		return err
	}
	if chosen == nil {
		return &UsageError{fmt.Sprintf("there is no verb %q; see: pos_cli --help", name)}
	}
	return Help(to, chosen)
}

// trimDashes removes leading dashes, so that "help --dump" finds dump.
func trimDashes(name string) string {
	for len(name) > 0 && name[0] == '-' {
		name = name[1:]
	}
	return name
}

// overview prints a line for each verb, and how programs are started.
func (s *Set) overview(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "pos_cli %s: run CUDA programs through phosd\n\n", api.Version)
	for _, each := range s.Verbs {
		fmt.Fprintf(out, "  pos_cli %s\t%s\n", synopsis(each), each.Summary)
	}
	fmt.Fprintf(out, "\nA program runs through phosd with:\n\n  pos_cli run -- PROGRAM\n\n"+
		"phosd's socket is %s, or the value of %s.\n"+
		"Exit status: 0 done, 1 failed, 2 wrong command line, 3 no phosd answers. More: pos_cli help VERB\n",
		api.DefaultSocket, api.SocketVariable)
	return out.Flush()
}

// synopsis returns how a verb is called.
func synopsis(v *Verb) string {
	if v.Arguments == "" {
		return v.Invocation()
	}
	return v.Invocation() + " " + v.Arguments
}

// Help prints the help of a verb.
func Help(to io.Writer, v *Verb) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "pos_cli %s: %s\n\n%s\n", synopsis(v), v.Summary, v.About)
	first := true
	for _, each := range flagsOf(v) {
		if first {
			fmt.Fprintf(out, "\nFlags:\n")
			first = false
		}
		value, usage := usageOf(each)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(out, "  --%s%s\t%s\n", each.Name, value, usage)
	}
	return out.Flush()
}

// flagsOf returns a verb's flags in alphabetical order.
func flagsOf(v *Verb) []*flag.Flag {
	flags := flag.NewFlagSet(v.Name, flag.ContinueOnError)
	v.Setup(flags)
	var all []*flag.Flag
	flags.VisitAll(func(each *flag.Flag) { all = append(all, each) })
	return all
}
