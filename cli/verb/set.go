package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/api"
)

// Set is all that a command can do.
type Set struct {
	// Verbs stand in the order of the help text.
	Verbs []*Verb
	// Later are known by name, so that asking for one gets a clear answer.
	Later map[string]string
	// ManualEnd is what stands in the manual page behind the verbs, in roff.
	ManualEnd string
}

// WithHelp adds the verbs that tell of the set itself: help, completion and the manual page.
func (s *Set) WithHelp() *Set {
	s.Verbs = append(s.Verbs, s.help(), s.completion(), s.manual())
	return s
}

// Run finds the verb that is meant and runs it. The name it returns is what a complaint begins
// with.
func (s *Set) Run(ctx context.Context, args []string, to Streams) (string, error) {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help"}, args[0]) {
		args = append([]string{helpName}, args[min(1, len(args)):]...)
	}
	chosen, rest, err := s.choose(args)
	if err != nil {
		return "pos_cli", err
	}
	if chosen.Name == helpName {
		// "help --stop" means the verb and not a flag.
		for i := range rest {
			rest[i] = trimDashes(rest[i])
		}
	}
	name := "pos_cli " + chosen.Invocation()
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	act := chosen.Prepare(flags)
	words, err := parse(flags, rest)
	if errors.Is(err, flag.ErrHelp) {
		return name, Help(to.Out, chosen)
	} else if err != nil {
		return name, &UsageError{fmt.Sprintf("%s; see: pos_cli help %s", explainFlagError(flags, err), chosen.Name)}
	}
	if (!chosen.Word || chosen.Arguments == "") && len(words) > 0 {
		return name, &UsageError{fmt.Sprintf("unexpected argument %q; see: pos_cli help %s", words[0], chosen.Name)}
	}
	return name, act(ctx, to, words)
}

// choose finds the one verb among the arguments, wherever a flag-like one stands, and returns the
// others.
func (s *Set) choose(args []string) (*Verb, []string, error) {
	if len(args) > 1 {
		if chosen := s.find(args[0] + " " + args[1]); chosen != nil {
			return chosen, slices.Clone(args[2:]), nil
		}
	}
	if chosen := s.find(args[0]); chosen != nil && chosen.Word {
		return chosen, slices.Clone(args[1:]), nil
	}
	for i, arg := range args {
		name, dashed := strings.CutPrefix(arg, "--")
		if !dashed {
			continue
		}
		if chosen := s.find(name); chosen != nil && (!chosen.Word || name == helpName) {
			return chosen, slices.Delete(slices.Clone(args), i, i+1), nil
		}
		if about, known := s.Later[name]; known {
			return nil, nil, fmt.Errorf("--%s (%s): %w in version %s", name, about, api.ErrNotBuilt, api.Version)
		}
	}
	// Other programs' verbs have no dashes, and one's own may be mistyped as such.
	if chosen := s.find(trimDashes(args[0])); chosen != nil {
		return nil, nil, &UsageError{fmt.Sprintf("%q is written %s", args[0], chosen.Invocation())}
	}
	return nil, nil, &UsageError{fmt.Sprintf("no verb in %q; see: pos_cli --help", strings.Join(args, " "))}
}

func (s *Set) find(name string) *Verb {
	for _, each := range s.Verbs {
		if each.Name == name {
			return each
		}
	}
	return nil
}
