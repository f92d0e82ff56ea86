package nodes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// run is what Setup of a verb returns.
type run = func(context.Context, verb.Streams, []string) error

// Verbs returns the verbs.
func Verbs() []*verb.Verb {
	yes, no := true, false
	return append([]*verb.Verb{
		verb.Group("node", "list|show|label|cordon|uncordon|drain|remove|token", "show and change the nodes of the cluster",
			`Nodes are the machines of a cluster. Every user may look at them; changes need an administrator.

    phos node list
    phos node drain gpu-7          # save or stop what runs there, before maintenance
    phos node uncordon gpu-7       # and after it
    phos node token                # how another machine joins`),
		{
			Name: "node list", Word: true, Summary: "list the nodes",
			About: `Lists the nodes. FREE are GPUs that no launch has, that no other program uses, and that are not bad.
A node is ready; unreachable, when it has not renewed its lease; gone, when its launches may run
elsewhere; or joining.

    phos node list --json | jq -r '.[] | select(.state != "ready") | .name'`,
			Setup: listVerb,
		},
		{
			Name: "node show", Word: true, Arguments: "NAME", Summary: "show one node and its GPUs",
			About: `Shows a node with its GPUs, and the launch that has each.

    phos node show gpu-7`,
			Setup: showVerb,
		},
		{
			Name: "node label", Word: true, Arguments: "NAME KEY=VALUE|KEY-...", Summary: "set and remove labels of a node",
			About: `Sets labels, and removes those that end with a dash.

    phos node label gpu-7 rack=r3 old-`,
			Setup: labelVerb,
		},
		changeVerb("cordon", "keep new launches from a node", `The node gets no new launches. What runs there goes on.

    phos node cordon gpu-7`, &api.ChangeNodeRequest{Cordoned: &yes}),
		changeVerb("uncordon", "let launches onto a node again", `The node gets launches again, and is no longer drained.

    phos node uncordon gpu-7`, &api.ChangeNodeRequest{Cordoned: &no, Draining: &no}),
		changeVerb("drain", "move what runs on a node elsewhere", `The node gets no new launches. Those that run there move to nodes that have room for them, while they
run (phos help migrate). Others are saved, or, if their description says that they are restartable,
stopped; they are queued again, and go on where there is room. phos node show says which are still
there, and phos events LAUNCH why. Leave the node on until phos checkpoints shows no image at risk.

    phos node drain gpu-7
    phos node drain --json gpu-7 | jq -r '.[].launches[]'`, &api.ChangeNodeRequest{Draining: &yes}),
		{
			Name: "node remove", Word: true, Arguments: "NAME", Summary: "forget a node",
			About: `Forgets a node, which must have no launches. Its certificate is worth nothing from then on. With
--force, its launches are started elsewhere at once: say that only if the machine is off, because
otherwise they would run twice.

    phos node drain gpu-7
    phos node remove gpu-7`,
			Setup: removeVerb,
		},
		{
			Name: "node token", Word: true, Summary: "print a token by which machines join",
			About: `Prints a token by which machines become nodes, and the command to run on them. It ends by itself.

    phos node token --valid 10m --uses 1`,
			Setup: tokenVerb,
		},
	}, slices.Concat(userVerbs(), quotaVerbs(), caVerbs())...)
}

// use connects to the cluster for one verb.
func use(act func(api.ClusterClient) error) error {
	client, err := reach.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	return act(client.Cluster)
}

// named returns the only argument of a verb.
func named(arguments []string, what, name string) (string, error) {
	if len(arguments) != 1 || arguments[0] == "" {
		return "", &verb.UsageError{Text: fmt.Sprintf("name one %s: phos %s NAME", what, name)}
	}
	return arguments[0], nil
}

// listVerb prints the nodes.
func listVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		return use(func(c api.ClusterClient) error {
			reply, err := c.ListNodes(ctx, &api.ListNodesRequest{})
			switch {
			case err != nil:
				return err
			case *asJSON:
				return view.JSON(to.Out, view.Objects(reply.GetNodes()))
			case len(reply.GetNodes()) == 0:
				_, err = fmt.Fprintln(to.Out, "no nodes; phos node token says how a machine joins")
				return err
			}
			return view.NodeTable(to.Out, reply.GetNodes(), time.Now())
		})
	}
}

// showVerb prints one node.
func showVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		name, err := named(arguments, "node", "node show")
		if err != nil {
			return err
		}
		return use(func(c api.ClusterClient) error {
			reply, err := c.ListNodes(ctx, &api.ListNodesRequest{Name: name})
			switch {
			case err != nil:
				return err
			case len(reply.GetNodes()) != 1:
				return fmt.Errorf("node %q: %w", name, api.ErrNotFound)
			case *asJSON:
				return view.JSON(to.Out, view.Object(reply.GetNodes()[0]))
			}
			return view.Node(to.Out, reply.GetNodes()[0], time.Now())
		})
	}
}

// changeVerb returns a verb that changes nodes.
func changeVerb(name, summary, about string, change *api.ChangeNodeRequest) *verb.Verb {
	v := &verb.Verb{Name: "node " + name, Word: true, Arguments: "NAME...", Summary: summary, About: about}
	v.Setup = func(flags *flag.FlagSet) run {
		asJSON := flags.Bool("json", false, "print the nodes as JSON")
		return func(ctx context.Context, to verb.Streams, names []string) error {
			if len(names) == 0 {
				_, err := named(names, "node", v.Name)
				return err
			}
			var requests []*api.ChangeNodeRequest
			for _, each := range names {
				requests = append(requests, &api.ChangeNodeRequest{
					Name: each, Cordoned: change.Cordoned, Draining: change.Draining,
				})
			}
			return changeNodes(ctx, to, requests, *asJSON)
		}
	}
	return v
}

// changeNodes changes nodes, and prints what they are then. After an error, those before it have
// been changed and are printed.
func changeNodes(ctx context.Context, to verb.Streams, requests []*api.ChangeNodeRequest, asJSON bool) error {
	return use(func(c api.ClusterClient) error {
		var changed []*api.Node
		var failed error
		for _, each := range requests {
			node, err := c.ChangeNode(ctx, each)
			if failed = err; err != nil {
				break
			}
			changed = append(changed, node)
		}
		if asJSON {
			return errors.Join(failed, view.JSON(to.Out, view.Objects(changed)))
		}
		for _, each := range changed {
			if err := sayNode(to, each); err != nil {
				return err
			}
		}
		return failed
	})
}

// sayNode says what a node is now.
func sayNode(to verb.Streams, node *api.Node) error {
	text := fmt.Sprintf("node %s is %s", humanize.Printable(node.GetName()), view.NodeState(node))
	if n := len(node.GetLaunches()); n > 0 {
		text += fmt.Sprintf("; %s there", humanize.Count(n, "launch is", "launches are"))
	}
	_, err := fmt.Fprintln(to.Out, text)
	return err
}

// labelVerb sets and removes labels.
func labelVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print the node as JSON, in an array")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		if len(arguments) < 2 {
			return &verb.UsageError{Text: "name a node and its labels: phos node label NAME KEY=VALUE"}
		}
		request := &api.ChangeNodeRequest{Name: arguments[0], SetLabels: map[string]string{}}
		for _, each := range arguments[1:] {
			key, value, sets := strings.Cut(each, "=")
			removed, removes := strings.CutSuffix(each, "-")
			switch {
			case sets && key != "":
				request.SetLabels[key] = value
			case removes && !sets && removed != "":
				request.RemoveLabels = append(request.RemoveLabels, removed)
			default:
				return &verb.UsageError{Text: fmt.Sprintf("%q is no label; want KEY=VALUE, or KEY- to remove it", each)}
			}
		}
		return changeNodes(ctx, to, []*api.ChangeNodeRequest{request}, *asJSON)
	}
}

// removeVerb forgets a node.
func removeVerb(flags *flag.FlagSet) run {
	force := flags.Bool("force", false, "the machine is off: start its launches elsewhere at once")
	asJSON := flags.Bool("json", false, "print the removed node's name as JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		name, err := named(arguments, "node", "node remove")
		if err != nil {
			return err
		}
		return use(func(c api.ClusterClient) error {
			if _, err := c.RemoveNode(ctx, &api.RemoveNodeRequest{Name: name, Force: *force}); err != nil {
				return err
			}
			return sayRemoved(to, *asJSON, name, fmt.Sprintf("node %s was removed", humanize.Printable(name)))
		})
	}
}

// sayRemoved says what was removed: as a text, or by its name as JSON.
func sayRemoved(to verb.Streams, asJSON bool, name, text string) error {
	if asJSON {
		return view.JSON(to.Out, map[string]string{"removed": name})
	}
	_, err := fmt.Fprintln(to.Out, text)
	return err
}

// tokenVerb prints a token for nodes.
func tokenVerb(flags *flag.FlagSet) run {
	valid := flags.Duration("valid", time.Hour, "the token ends after `TIME`")
	uses := flags.Uint("uses", 1, "`N` machines may join by it, at most 10000")
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		if *valid < time.Second {
			return &verb.UsageError{Text: "--valid takes a time of at least 1s, as 10m or 24h"}
		}
		return use(func(c api.ClusterClient) error {
			request := &api.NewJoinTokenRequest{ValidSeconds: uint64(*valid / time.Second), Uses: uint32(*uses)}
			reply, err := c.NewJoinToken(ctx, request)
			if err != nil {
				return err
			}
			if *asJSON {
				return view.JSON(to.Out, view.Object(reply))
			}
			_, err = fmt.Fprintf(to.Out, "on the other machine, until %s:\n\n  pos_cli --start --target agent --join %s\n",
				time.UnixMilli(reply.GetExpiresUnixMs()).Format(time.DateTime), humanize.Printable(reply.GetToken()))
			return err
		})
	}
}
