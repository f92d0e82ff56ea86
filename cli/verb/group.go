package verb

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/internal/spelling"
)

// Group returns a verb that prints the help of a group of verbs, whose names begin with its own. It
// returns a usage error for an unknown verb of the group.
func Group(name, verbs, summary, about string) *Verb {
	v := &Verb{Name: name, Word: true, Arguments: verbs, Summary: summary, About: about}
	v.Setup = func(*flag.FlagSet) func(context.Context, Streams, []string) error {
		return func(_ context.Context, _ Streams, arguments []string) error {
			if len(arguments) == 0 {
				return flag.ErrHelp
			}
			text := fmt.Sprintf("there is no verb %q; there are %s", name+" "+arguments[0], verbs)
			if near := spelling.Nearest(arguments[0], strings.Split(verbs, "|")); near != "" {
				text += fmt.Sprintf("; did you mean %s %s?", name, near)
			}
			return &unknownMember{UsageError{text}}
		}
	}
	return v
}

// unknownMember is returned for an unknown verb of a group.
type unknownMember struct{ UsageError }
