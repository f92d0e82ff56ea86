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
		Summary:   "explain the command or one of its verbs",
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
	said := strings.Join(arguments, " ")
	name := trimDashes(said)
	chosen := s.find(name)
	if other := s.dashed(name); other != nil && name != said {
		chosen = other
	}
	if chosen == nil {
		return &UsageError{fmt.Sprintf("there is no verb %q; see: %s --help", name, s.Program)}
	}
	return s.describe(to, chosen)
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
	fmt.Fprintf(out, "%s %s: run CUDA programs through phosd, and launches on a cluster\n\n", s.Program, api.Version)
	for _, each := range s.Verbs {
		fmt.Fprintf(out, "  %s %s\t%s\n", s.Program, synopsis(each), each.Summary)
	}
	fmt.Fprintf(out, "\nA program runs through phosd with:\n\n  %[1]s run -- PROGRAM\n\n"+
		"phosd's socket is %[2]s, or the value of %[3]s.\n"+
		"Exit status: 0 done, 1 failed, 2 wrong command line, 3 no phosd or no controller answers. More: %[1]s help VERB\n",
		s.Program, api.DefaultSocket, api.SocketVariable)
	return out.Flush()
}

// synopsis returns how a verb is called.
func synopsis(v *Verb) string {
	if v.Arguments == "" {
		return v.Invocation()
	}
	return v.Invocation() + " " + v.Arguments
}

// describe prints the help of a verb.
func (s *Set) describe(to io.Writer, v *Verb) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "%s %s: %s\n\n%s\n", s.Program, synopsis(v), v.Summary, v.About)
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
