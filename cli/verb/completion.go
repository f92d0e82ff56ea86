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

// listPIDs is shell code that prints the pids of programs, for --pid.
const listPIDs = `pos_cli ps --local 2>/dev/null | awk 'NR > 1 { print $1; print $2 }' | sort -u`

// state is what can follow a word of the command line.
type state struct {
	// after is the verb so far and the word; verb is the verb then.
	after, verb string
	words       []string
}

// states returns the words after which other words can follow. A verb with dashes may stand behind
// flags, so its state follows from the empty verb.
func (s *Set) states() (all []state) {
	for _, each := range s.Verbs {
		spoken := each.Invocation()
		group, own, inGroup := strings.Cut(spoken, " ")
		if !inGroup {
			group, own = "", spoken
		}
		all = append(all, state{group + " " + own, spoken, s.completions(each)})
		if members := s.members(each.Name); len(members) > 0 {
			all = append(all, state{helpName + " " + each.Name, helpName + " " + each.Name, members})
		}
	}
	return all
}

// values returns the values of flags by "VERB FLAG".
func (s *Set) values() (all []state) {
	for _, each := range s.Verbs {
		for _, f := range flagsOf(each) {
			if values := each.Values[f.Name]; len(values) > 0 {
				all = append(all, state{after: each.Invocation() + " --" + f.Name, words: values})
			}
		}
	}
	return all
}

// completeBash writes one function. It follows the words to the verb, and completes its flags, the
// values of a flag, or verbs.
func (s *Set) completeBash(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "_pos_cli() {\n\tlocal verb= word words=%q\n", strings.Join(s.firstWords(), " "))
	text.WriteString("\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n")
	text.WriteString("\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase \"$verb $word\" in\n")
	for _, each := range s.Verbs {
		if each.Command {
			fmt.Fprintf(
				&text,
				"\t\t\"%s --\") COMPREPLY=($(compgen -c -- \"$current\")); return ;;\n",
				each.Invocation(),
			)
		}
	}
	for _, each := range s.states() {
		fmt.Fprintf(&text, "\t\t%q) verb=%q words=%q ;;\n", each.after, each.verb, strings.Join(each.words, " "))
	}
	text.WriteString("\t\tesac\n\tdone\n\tcase \"$verb $previous\" in\n")
	for _, each := range s.values() {
		fmt.Fprintf(&text, "\t%q) words=%q ;;\n", each.after, strings.Join(each.words, " "))
	}
	fmt.Fprintf(&text, "\t*\" --pid\") words=$(%s) ;;\n\tesac\n", listPIDs)
	text.WriteString("\tCOMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n")
	text.WriteString("complete -o default -F _pos_cli pos_cli phos\n")
	_, err := io.WriteString(to, text.String())
	return err
}

// completeZsh does the same for zsh. The text works as a file in fpath and with eval.
func (s *Set) completeZsh(to io.Writer) error {
	var text strings.Builder
	text.WriteString("#compdef pos_cli phos\n_pos_cli() {\n\tlocal -a candidates\n\tlocal word verb=\n")
	fmt.Fprintf(&text, "\tcandidates=(%s)\n", strings.Join(s.firstWords(), " "))
	text.WriteString("\tfor word in \"${(@)words[2,CURRENT-1]}\"; do\n\t\tcase \"$verb $word\" in\n")
	for _, each := range s.Verbs {
		if each.Command {
			fmt.Fprintf(&text, "\t\t\"%s --\") _command_names -e; return ;;\n", each.Invocation())
		}
	}
	for _, each := range s.states() {
		fmt.Fprintf(&text, "\t\t%q) verb=%q candidates=(%s) ;;\n", each.after, each.verb, strings.Join(each.words, " "))
	}
	text.WriteString("\t\tesac\n\tdone\n\tcase \"$verb ${words[CURRENT-1]}\" in\n")
	for _, each := range s.values() {
		fmt.Fprintf(&text, "\t%q) candidates=(%s) ;;\n", each.after, strings.Join(each.words, " "))
	}
	fmt.Fprintf(&text, "\t*\" --pid\") candidates=(${(f)\"$(%s)\"}) ;;\n\tesac\n", listPIDs)
	text.WriteString("\tcompadd -- $candidates || _files\n}\n")
	text.WriteString("if [[ $funcstack[1] == _pos_cli ]]; then\n\t_pos_cli\nelse\n")
	text.WriteString(
		"\t(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n\tcompdef _pos_cli pos_cli phos\nfi\n",
	)
	_, err := io.WriteString(to, text.String())
	return err
}

// completeFish writes one complete command for each verb and each flag.
func (s *Set) completeFish(to io.Writer) error {
	var text strings.Builder
	text.WriteString("complete -c pos_cli -f\ncomplete -c phos -w pos_cli\n")
	for _, each := range s.Verbs {
		quoted := strings.ReplaceAll(each.Summary, "'", "\\'")
		group, own, inGroup := strings.Cut(each.Name, " ")
		condition := ""
		switch {
		case inGroup:
			fmt.Fprintf(
				&text,
				"complete -c pos_cli -n '__fish_seen_subcommand_from %s' -a %s -d '%s'\n",
				group,
				own,
				quoted,
			)
			condition = fmt.Sprintf(
				" -n '__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from %s'",
				group,
				own,
			)
		case each.Word:
			fmt.Fprintf(&text, "complete -c pos_cli -n __fish_use_subcommand -a %s -d '%s'\n", each.Name, quoted)
			condition = fmt.Sprintf(
				" -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from %s'",
				each.Name, strings.Join(s.groups(), " "),
			)
		default:
			fmt.Fprintf(&text, "complete -c pos_cli -l %s -d '%s'\n", each.Name, quoted)
		}
		for _, f := range flagsOf(each) {
			fmt.Fprintf(&text, "complete -c pos_cli%s -l %s%s\n", condition, f.Name, fishValues(each, f.Name))
		}
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// fishValues returns what completes the value of a flag.
func fishValues(v *Verb, name string) string {
	if name == "pid" {
		return fmt.Sprintf(" -xa \"(%s)\"", strings.ReplaceAll(listPIDs, "$", `\$`))
	}
	if values := v.Values[name]; len(values) > 0 {
		return fmt.Sprintf(" -xa '%s'", strings.Join(values, " "))
	}
	return ""
}

// completions returns the words that can follow a verb.
func (s *Set) completions(v *Verb) []string {
	switch v.Name {
	case helpName:
		var names []string
		for _, each := range s.Verbs {
			if !strings.Contains(each.Name, " ") {
				names = append(names, each.Name)
			}
		}
		return names
	case "completion":
		return []string{"bash", "zsh", "fish"}
	}
	words := s.members(v.Name)
	for _, each := range flagsOf(v) {
		words = append(words, "--"+each.Name)
	}
	return words
}

// members returns the last words of a group's verbs.
func (s *Set) members(group string) (words []string) {
	for _, each := range s.Verbs {
		if own, inGroup := strings.CutPrefix(each.Name, group+" "); inGroup {
			words = append(words, own)
		}
	}
	return words
}

// groups returns the names of all groups.
func (s *Set) groups() (names []string) {
	for _, each := range s.Verbs {
		if len(s.members(each.Name)) > 0 {
			names = append(names, each.Name)
		}
	}
	return names
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
