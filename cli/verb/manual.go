package verb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/api"
)

// manual returns the verb that prints the manual pages, in roff.
func (s *Set) manual() *Verb {
	return &Verb{
		Name: "man", Word: true, Arguments: "[PAGE]",
		Summary: "print a manual page, in roff",
		About: `Prints a manual page, pos_cli(1) if none is named. An installation has them all.

    pos_cli man | man -l -
    pos_cli man phosd.toml.5 | man -l -`,
		Setup: func(*flag.FlagSet) func(context.Context, Streams, []string) error {
			return func(_ context.Context, to Streams, words []string) error {
				if len(words) == 0 {
					return s.writeManual(to.Out)
				}
				page, ok := s.Pages[words[0]]
				if !ok || len(words) > 1 {
					known := strings.Join(slices.Sorted(maps.Keys(s.Pages)), ", ")
					return &UsageError{fmt.Sprintf("no manual page %q; there are: %s", strings.Join(words, " "), known)}
				}
				_, err := io.WriteString(to.Out, page())
				return err
			}
		},
	}
}

func (s *Set) writeManual(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(
		&text,
		".TH POS_CLI 1 \"\" \"phos %s\" \"phos\"\n.SH NAME\npos_cli \\- run CUDA programs through phosd\n.SH SYNOPSIS\n",
		Roff(api.Version),
	)
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, ".B pos_cli %s\n.br\n", Roff(synopsis(each)))
	}
	text.WriteString(".SH VERBS\n")
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, ".SS %s\n%s\n", Roff(synopsis(each)), roffText(each.About))
		for _, option := range flagsOf(each) {
			value, usage := usageOf(option)
			fmt.Fprintf(&text, ".TP\n.B %s\n%s\n", Roff(strings.TrimSpace("--"+option.Name+" "+value)), Roff(usage))
		}
	}
	text.WriteString(s.ManualEnd)
	_, err := io.WriteString(to, text.String())
	return err
}

// Roff returns text with the characters escaped that mean something to roff.
func Roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}

// roffText formats paragraphs, and indented lines as examples.
func roffText(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "":
			lines = append(lines, ".PP")
		case strings.HasPrefix(line, "    "):
			lines = append(lines, ".nf", Roff(line), ".fi")
		case line[0] == '.' || line[0] == '\'':
			lines = append(lines, `\&`+Roff(line))
		default:
			lines = append(lines, Roff(line))
		}
	}
	return strings.Join(lines, "\n")
}
