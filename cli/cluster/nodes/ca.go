package nodes

import (
	"context"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// caVerbs returns the verbs about the CA of the cluster.
func caVerbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group("ca", "show|prepare|switch|finish|abort", "show and replace the CA of the cluster",
			`The CA signs the certificates of controllers and nodes. It is replaced in three steps, before it ends
or when its key may have been read. What runs does not notice.

    phos ca prepare    # the next CA is trusted beside the old one
    phos ca switch     # it signs; nodes and controllers get other certificates at once
    phos ca finish     # the old one is no longer trusted

Between two steps wait until all nodes are ready: those that are away learn it when they come back.`),
		caVerb("show", "", "show the CAs that are trusted", `Shows how far the CA is replaced, and the fingerprints of all that are trusted. The first one signs.

    phos ca show`),
		caVerb("prepare", "prepare", "make the next CA, and trust it", `Makes the next CA. It is trusted, and signs nothing yet.

    phos ca prepare`),
		caVerb("switch", "switch", "let the next CA sign", `The next CA signs from now on, and the key of the old one is gone. Nodes and controllers get other
certificates at once. Tokens by which nodes join, and that were made before, are worth nothing now.
Users log in again, with the tokens that they have (phos help login).

    phos ca switch`),
		caVerb("finish", "finish", "end the trust in the old CA", `The old CA is no longer trusted. A node that was away since the switch must join again.

    phos ca finish`),
		caVerb("abort", "abort", "take prepare back", `The next CA is no longer trusted. It has signed nothing.

    phos ca abort`),
	}
}

// caVerb returns the verb of a step.
func caVerb(name, step, summary, about string) *verb.Verb {
	return &verb.Verb{Name: "ca " + name, Word: true, Summary: summary, About: about, Setup: func(flags *flag.FlagSet) run {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			return use(func(c api.ClusterClient) error {
				reply, err := c.ReplaceCA(ctx, &api.ReplaceCARequest{Step: step})
				switch {
				case err != nil:
					return err
				case *asJSON:
					return view.JSON(to.Out, view.Object(reply))
				}
				fmt.Fprintf(to.Out, "the CA is %s\n", reply.GetStep())
				for i, each := range reply.GetTrusted() {
					does := "is trusted"
					if i == 0 {
						does = "signs"
					}
					fmt.Fprintf(to.Out, "%s %s\n", each, does)
				}
				return nil
			})
		}
	}}
}
