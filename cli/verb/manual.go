package verb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/phos-gpu/phos/daemon/api"
)

// manual returns the verb that prints the manual page, in roff.
func (s *Set) manual() *Verb {
	return &Verb{
		Name: "man", Word: true,
		Summary: "print the manual page, in roff",
		About:   `Prints the manual page; build.sh install installs it.`,
		Setup: func(*flag.FlagSet) func(context.Context, Streams, []string) error {
			return func(_ context.Context, to Streams, _ []string) error { return s.writeManual(to.Out) }
		},
	}
}

func (s *Set) writeManual(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(
		&text,
		".TH POS_CLI 1 \"\" \"phos %s\" \"phos\"\n.SH NAME\npos_cli \\- run CUDA programs through phosd\n.SH SYNOPSIS\n",
		roff(api.Version),
	)
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, ".B pos_cli %s\n.br\n", roff(synopsis(each)))
	}
	text.WriteString(".SH VERBS\n")
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, ".SS %s\n%s\n", roff(synopsis(each)), roffText(each.About))
		for _, option := range flagsOf(each) {
			value, usage := usageOf(option)
			fmt.Fprintf(&text, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+option.Name+" "+value)), roff(usage))
		}
	}
	text.WriteString(s.ManualEnd)
	_, err := io.WriteString(to, text.String())
	return err
}

func roff(text string) string {
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
			lines = append(lines, ".nf", roff(line), ".fi")
		case line[0] == '.' || line[0] == '\'':
			lines = append(lines, `\&`+roff(line))
		default:
			lines = append(lines, roff(line))
		}
	}
	return strings.Join(lines, "\n")
}
