package nodes

import (
	"context"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
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

Each step waits for all nodes to have followed the one before: phos ca show names those that have not.
A node that is away learns a step when it comes back. switch and finish are refused before; --force
makes them all the same. A node that has not followed must join again then.`),
		caVerb("show", "", "show the CAs that are trusted", `Shows how far the CA is replaced, and the fingerprints of all that are trusted. The first one signs.

    phos ca show`),
		caVerb("prepare", "prepare", "make the next CA, and trust it", `Makes the next CA. It is trusted, and signs nothing yet.

    phos ca prepare`),
		caVerb("switch", "switch", "let the next CA sign", `The next CA signs from now on, and the key of the old one is gone. Nodes and controllers get other
certificates at once. Tokens by which nodes join, and that were made before, are worth nothing now.
Users log in again, with the tokens that they have (phos help login).

It is refused while a node does not trust the next CA. With --force, such a node cannot return to the
cluster: what it runs is stopped after fence_after, and it must join again.

    phos ca switch`),
		caVerb("finish", "finish", "end the trust in the old CA", `The old CA is no longer trusted. 
It is refused while a node has a certificate of the old one. With --force, the certificate of such a
node is worth nothing: what it runs is stopped after fence_after, and it must join again.

    phos ca finish`),
		caVerb("abort", "abort", "take prepare back", `The next CA is no longer trusted. It has signed nothing.

    phos ca abort`),
	}
}

// caVerb returns the verb of a step.
func caVerb(name, step, summary, about string) *verb.Verb {
	return &verb.Verb{Name: "ca " + name, Word: true, Summary: summary, About: about, Setup: func(flags *flag.FlagSet) run {
		asJSON := flags.Bool("json", false, "print JSON")
		force := new(bool)
		if step == "switch" || step == "finish" {
			force = flags.Bool("force", false, "nodes that have not followed must join again")
		}
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			return use(func(c api.ClusterClient) error {
				reply, err := c.ReplaceCA(ctx, &api.ReplaceCARequest{Step: step, Force: *force})
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
				for _, node := range reply.GetBehind() {
					fmt.Fprintf(to.Out, "node %s has not followed\n", humanize.Printable(node))
				}
				return nil
			})
		}
	}}
}
