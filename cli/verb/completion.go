package verb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// completion returns the verb that prints shell completion for all verbs.
func (s *Set) completion() *Verb {
	return &Verb{
		Name: "completion", Word: true,
		Arguments: "bash|zsh|fish",
		Summary:   "print shell completion",
		About: `Prints completion for a shell:

    bash   eval "$(pos_cli completion bash)"
    zsh    eval "$(pos_cli completion zsh)"
    fish   pos_cli completion fish | source`,
		Setup: func(*flag.FlagSet) func(context.Context, Streams, []string) error {
			return func(_ context.Context, to Streams, arguments []string) error {
				if len(arguments) != 1 {
					return &UsageError{"name one shell: bash, zsh or fish"}
				}
				return s.complete(to.Out, arguments[0])
			}
		},
	}
}

// complete writes the completion code for a shell.
func (s *Set) complete(to io.Writer, shell string) error {
	switch shell {
	case "bash":
		return s.completeBash(to)
	case "zsh":
		return s.completeZsh(to)
	case "fish":
		return s.completeFish(to)
	}
	return &UsageError{fmt.Sprintf("no completion for %q; choose bash, zsh or fish", shell)}
}

// completeBash writes one function: it completes verbs first, then the flags of the given verb.
func (s *Set) completeBash(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "_pos_cli() {\n\tlocal words word\n\twords=%q\n", strings.Join(s.firstWords(), " "))
	text.WriteString("\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $word in\n")
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, "\t\t%s) words=%q ;;\n", each.lastWord(), strings.Join(s.completions(each), " "))
	}
	text.WriteString("\t\tesac\n\tdone\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n")
	text.WriteString("complete -o default -F _pos_cli pos_cli\n")
	_, err := io.WriteString(to, text.String())
	return err
}

// completeZsh does the same for zsh. The text works as a file in fpath and with eval.
func (s *Set) completeZsh(to io.Writer) error {
	var text strings.Builder
	text.WriteString("#compdef pos_cli\n_pos_cli() {\n\tlocal -a candidates\n\tlocal word\n")
	fmt.Fprintf(&text, "\tcandidates=(%s)\n", strings.Join(s.firstWords(), " "))
	text.WriteString("\tfor word in \"${(@)words[2,CURRENT-1]}\"; do\n\t\tcase $word in\n")
	for _, each := range s.Verbs {
		fmt.Fprintf(&text, "\t\t%s) candidates=(%s) ;;\n", each.lastWord(), strings.Join(s.completions(each), " "))
	}
	text.WriteString("\t\tesac\n\tdone\n\tcompadd -- $candidates\n}\n")
	text.WriteString("if [[ $funcstack[1] == _pos_cli ]]; then\n\t_pos_cli\nelse\n")
	text.WriteString(
		"\t(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n\tcompdef _pos_cli pos_cli\nfi\n",
	)
	_, err := io.WriteString(to, text.String())
	return err
}

// completeFish writes one complete command for each verb and each flag.
func (s *Set) completeFish(to io.Writer) error {
	var text strings.Builder
	text.WriteString("complete -c pos_cli -f\n")
	for _, each := range s.Verbs {
		quoted := strings.ReplaceAll(each.Summary, "'", "\\'")
		group, own, inGroup := strings.Cut(each.Name, " ")
		if inGroup {
			fmt.Fprintf(
				&text,
				"complete -c pos_cli -n '__fish_seen_subcommand_from %s' -a %s -d '%s'\n",
				group,
				own,
				quoted,
			)
			for _, each := range flagsOf(each) {
				fmt.Fprintf(&text, "complete -c pos_cli -n '__fish_seen_subcommand_from %s' -l %s\n", own, each.Name)
			}
			continue
		}
		if each.Word {
			fmt.Fprintf(&text, "complete -c pos_cli -n __fish_use_subcommand -a %s -d '%s'\n", each.Name, quoted)
			continue
		}
		fmt.Fprintf(&text, "complete -c pos_cli -l %s -d '%s'\n", each.Name, quoted)
		for _, each := range flagsOf(each) {
			fmt.Fprintf(&text, "complete -c pos_cli -l %s\n", each.Name)
		}
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// completions returns the words that can follow a verb.
func (s *Set) completions(v *Verb) []string {
	switch v.Name {
	case helpName:
		var names []string
		for _, each := range s.Verbs {
			names = append(names, each.Name)
		}
		return names
	case "completion":
		return []string{"bash", "zsh", "fish"}
	}
	var words []string
	for _, each := range s.Verbs {
		if own, inGroup := strings.CutPrefix(each.Name, v.Name+" "); inGroup {
			words = append(words, own)
		}
	}
	for _, each := range flagsOf(v) {
		words = append(words, "--"+each.Name)
	}
	return words
}

// lastWord returns the word after which the verb's own words and flags follow.
func (v *Verb) lastWord() string {
	spoken := v.Invocation()
	return spoken[strings.LastIndex(spoken, " ")+1:]
}

// firstWords returns the invocations of a single word.
func (s *Set) firstWords() []string {
	var words []string
	for _, each := range s.Verbs {
		if spoken := each.Invocation(); !strings.Contains(spoken, " ") {
			words = append(words, spoken)
		}
	}
	return words
}
