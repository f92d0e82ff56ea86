package verb

import (
	"flag"
	"fmt"
	"regexp"
	"strings"

	"github.com/phos-gpu/phos/internal/spelling"
)

// parse accepts flags before, between and after the words, or, if the words are a command, only
// before them.
func parse(flags *flag.FlagSet, args []string, command bool) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if command {
			return flags.Args(), nil
		}
		if flags.NArg() == 0 {
			return words, nil
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

var (
	wrongValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (.*)$`)
	lacksValue = regexp.MustCompile(`^flag needs an argument: -([a-z-]+)$`)
	noFlag     = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
)

// explainFlagError rewrites an error of package flag: with two dashes, and with the meaning of the
// value.
func explainFlagError(flags *flag.FlagSet, err error) string {
	if match := wrongValue.FindStringSubmatch(err.Error()); match != nil {
		placeholder, meaning := usageOf(flags.Lookup(match[2]))
		if placeholder == "" {
			placeholder = "true or false"
		}
		switch why := strings.TrimPrefix(match[3], "invalid configuration: "); {
		case why == "parse error":
			return fmt.Sprintf("--%s takes %s (%s), not %s", match[2], placeholder, meaning, match[1])
		case strings.Contains(why, `"`): // the value, or the part of it that is wrong
			return fmt.Sprintf("--%s takes %s: %s", match[2], placeholder, why)
		default:
			return fmt.Sprintf("--%s takes %s, not %s: %s", match[2], placeholder, match[1], why)
		}
	}
	if match := lacksValue.FindStringSubmatch(err.Error()); match != nil {
		placeholder, meaning := usageOf(flags.Lookup(match[1]))
		return fmt.Sprintf("--%s needs its %s (%s)", match[1], placeholder, meaning)
	}
	if match := noFlag.FindStringSubmatch(err.Error()); match != nil {
		name := strings.TrimLeft(match[1], "-")
		var known []string
		flags.VisitAll(func(each *flag.Flag) { known = append(known, each.Name) })
		text := "there is no flag --" + name
		if near := spelling.Nearest(name, known); near != "" {
			text += fmt.Sprintf("; did you mean --%s?", near)
		}
		return text
	}
	return err.Error()
}

// nouns are the words for placeholders that are not words themselves.
var nouns = map[string]string{
	"DIR": "directory", "PID": "pid", "MS,MS,...": "milliseconds", "N,N,...": "numbers of",
	"N": "number of", "M": "number of", "F": "number of", "K": "number of", "NB": "number of",
}

// usageOf returns the placeholder of a flag's value, and the meaning of the flag. A meaning that
// begins with the placeholder, as "DIR of the image", would be read twice beside it, so a word
// stands there instead.
func usageOf(f *flag.Flag) (placeholder, meaning string) {
	placeholder, meaning = flag.UnquoteUsage(f)
	if !strings.HasPrefix(f.Usage, "`") {
		return placeholder, meaning
	}
	noun, ok := nouns[placeholder]
	if !ok {
		noun = strings.ToLower(placeholder)
	}
	return placeholder, noun + strings.TrimPrefix(meaning, placeholder)
}
