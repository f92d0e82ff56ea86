package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/spelling"
)

// Set is all verbs of a command.
type Set struct {
	// Program is the name that the command was called by.
	Program string
	// Verbs are in the order of the help text.
	Verbs []*Verb
	// Reserved are the verbs with dashes, of which the same word without dashes will mean something
	// else.
	Reserved []string
	// ManualEnd follows the verbs in the manual page, in roff.
	ManualEnd string
	// Pages are the other manual pages, by name and section, as phosd.8.
	Pages map[string]func() string
}

// WithHelp adds the verbs that describe the set itself: help, completion and man.
func (s *Set) WithHelp() *Set {
	s.Verbs = append(s.Verbs, s.help(), s.completion(), s.manual())
	return s
}

// Run finds the verb of the command line and runs it. The name that it returns is the prefix for
// an error message.
func (s *Set) Run(ctx context.Context, args []string, to Streams) (string, error) {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help"}, args[0]) {
		args = append([]string{helpName}, args[min(1, len(args)):]...)
	}
	chosen, rest, err := s.choose(args)
	if err != nil {
		return s.Program, err
	}
	name := s.Program + " " + chosen.Invocation()
	if chosen.Name == helpName && !slices.Contains(rest, "--help") && !slices.Contains(rest, "-h") {
		return name, s.explain(to.Out, rest) // in "help --stop", --stop is a verb and not a flag
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	act := chosen.Setup(flags)
	words, err := parse(flags, rest, chosen.Command)
	if errors.Is(err, flag.ErrHelp) {
		return name, s.describe(to.Out, chosen)
	} else if err != nil {
		return name, &UsageError{fmt.Sprintf("%s; see: %s", explainFlagError(flags, err), s.helpOn(chosen))}
	}
	if (!chosen.Word || chosen.Arguments == "") && len(words) > 0 {
		return name, &UsageError{fmt.Sprintf("unexpected argument %q; see: %s", words[0], s.helpOn(chosen))}
	}
	err = act(ctx, to, words)
	var member *unknownMember
	switch {
	case errors.Is(err, flag.ErrHelp):
		return name, s.describe(to.Out, chosen)
	case errors.As(err, &member):
		return name, &UsageError{member.Text + "; see: " + s.helpOn(chosen)}
	}
	return name, err
}

// choose finds the verb among the arguments and returns the other arguments. A verb with dashes may
// be anywhere among the flags.
func (s *Set) choose(args []string) (*Verb, []string, error) {
	if len(args) > 1 {
		if chosen := s.find(args[0] + " " + args[1]); chosen != nil {
			return chosen, slices.Clone(args[2:]), nil
		}
	}
	if chosen := s.word(args[0]); chosen != nil {
		return chosen, slices.Clone(args[1:]), nil
	}
	for i, arg := range args {
		name, dashed := strings.CutPrefix(arg, "--")
		if !dashed {
			continue
		}
		if chosen := s.dashed(name); chosen != nil {
			return chosen, slices.Delete(slices.Clone(args), i, i+1), nil
		}
	}
	if slices.Contains(s.Reserved, args[0]) {
		return nil, nil, &UsageError{s.reservedText(args[0])}
	}
	// A verb with the wrong dashes.
	if chosen := s.meant(args[0], trimDashes(args[0])); chosen != nil {
		return nil, nil, &UsageError{fmt.Sprintf("%q is written %s", args[0], chosen.Invocation())}
	}
	text := fmt.Sprintf("no verb in %q", strings.Join(args, " "))
	if near := s.nearest(args); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, nil, &UsageError{text + "; see: " + s.Program + " --help"}
}

// nearest returns the verb that a wrong one among the arguments was probably meant to be, or "".
func (s *Set) nearest(args []string) string {
	var known []string
	for _, each := range s.Verbs {
		known = append(known, each.Name)
	}
	var candidates []string
	if len(args) > 1 {
		candidates = append(candidates, args[0]+" "+args[1])
	}
	candidates = append(candidates, args[0])
	for _, each := range args[1:] {
		if strings.HasPrefix(each, "--") {
			candidates = append(candidates, each)
		}
	}
	for _, each := range candidates {
		if near := spelling.Nearest(trimDashes(each), known); near != "" {
			return s.Program + " " + s.meant(each, near).Invocation()
		}
	}
	return ""
}

// reservedText says what a reserved word is for, and how the verb of this machine is written.
func (s *Set) reservedText(name string) string {
	return fmt.Sprintf("%q is written --%s on this machine; without dashes it is reserved for launches on a cluster",
		name, name)
}

// meant returns the verb of a name that was written in some way: with dashes, it is rather the one
// with dashes.
func (s *Set) meant(written, name string) *Verb {
	if found := s.dashed(name); found != nil && strings.HasPrefix(written, "-") {
		return found
	}
	return s.find(name)
}

// find returns the verb of a name. Where there is one with dashes and one without, it is the one
// without.
func (s *Set) find(name string) *Verb {
	if found := s.word(name); found != nil {
		return found
	}
	return s.dashed(name)
}

// word returns the verb that is written without dashes.
func (s *Set) word(name string) *Verb {
	return s.first(func(v *Verb) bool { return v.Word && v.Name == name })
}

// dashed returns the verb that is written with dashes. --help is help.
func (s *Set) dashed(name string) *Verb {
	return s.first(func(v *Verb) bool { return (!v.Word || name == helpName) && v.Name == name })
}

// first returns the first verb for which a condition holds, or nil.
func (s *Set) first(holds func(*Verb) bool) *Verb {
	if i := slices.IndexFunc(s.Verbs, holds); i >= 0 {
		return s.Verbs[i]
	}
	return nil
}

// helpOn returns the command that explains a verb.
func (s *Set) helpOn(v *Verb) string {
	name := v.Name
	if s.first(func(other *Verb) bool { return other != v && other.Name == name }) != nil {
		name = v.Invocation()
	}
	return s.Program + " help " + name
}
