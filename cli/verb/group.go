package verb

import (
	"context"
	"flag"
	"fmt"
)

// Group is a verb that explains those whose names begin with its own, and says so when one is asked
// for that there is not.
func Group(name, verbs, summary, about string) *Verb {
	v := &Verb{Name: name, Word: true, Arguments: verbs, Summary: summary, About: about}
	v.Prepare = func(*flag.FlagSet) func(context.Context, Streams, []string) error {
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
