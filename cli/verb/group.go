package verb

import (
	"context"
	"flag"
	"fmt"
)

// Group returns a verb that prints the help of a group of verbs, whose names begin with its own. It
// returns a usage error for an unknown verb of the group.
func Group(name, verbs, summary, about string) *Verb {
	v := &Verb{Name: name, Word: true, Arguments: verbs, Summary: summary, About: about}
	v.Setup = func(*flag.FlagSet) func(context.Context, Streams, []string) error {
		return func(_ context.Context, to Streams, arguments []string) error {
			if len(arguments) == 0 {
				return Help(to.Out, v)
			}
			return &UsageError{
				Text: fmt.Sprintf(
					"there is no verb %q; there are %s; see: pos_cli help %s",
					name+" "+arguments[0],
					verbs,
					name,
				),
			}
		}
	}
	return v
}
