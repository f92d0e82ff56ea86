package nodes

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/login"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// userVerbs returns the verbs about users.
func userVerbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group("user", "list|add|token|remove", "show and change the users of the cluster",
			`Users reach a cluster by a token. On the controller's machine they need none: there the account of
the process counts. A launch runs as its user's account on each node.

    phos user add ada
    phos user list

phos user add prints the command by which the user logs in on another machine (phos login).`),
		{
			Name: "user list", Word: true, Summary: "list the users", About: `Lists the users, and when their tokens end.

    phos user list --json`, Setup: listUsersVerb,
		},
		{
			Name: "user add", Word: true, Arguments: "NAME", Summary: "add a user, and print the token",
			About: `Adds a user and prints the token, which is shown once: the cluster keeps only its hash.

    phos user add ada
    phos user add ci --account builds --valid 720h
    phos user add eve --role viewer

A user sees and changes launches of the own account, an admin all and the nodes, and a viewer only
looks.`,
			Values: map[string][]string{"role": {"user", "admin", "viewer"}}, Setup: addUserVerb,
		},
		{
			Name: "user token", Word: true, Arguments: "NAME", Summary: "make a new token for a user",
			About: `Makes a new token and prints it. The one before is worth nothing from then on.

    phos user token ada --valid 720h`, Setup: userTokenVerb,
		},
		{
			Name: "user remove", Word: true, Arguments: "NAME", Summary: "remove a user",
			About: `Removes a user, whose token is worth nothing from then on. Launches go on.

    phos user remove ada`, Setup: removeUserVerb,
		},
	}
}

// listUsersVerb prints the users.
func listUsersVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		return use(func(c api.ClusterClient) error {
			reply, err := c.ListUsers(ctx, &api.ListUsersRequest{})
			if err != nil {
				return err
			}
			if *asJSON {
				return view.JSON(to.Out, view.Objects(reply.GetUsers()))
			}
			return view.Users(to.Out, reply.GetUsers(), time.Now())
		})
	}
}

// addUserVerb adds a user.
func addUserVerb(flags *flag.FlagSet) run {
	user := &api.User{}
	flags.StringVar(&user.Account, "account", "", "Unix `ACCOUNT` of the user's launches; the user's name if it is empty")
	flags.StringVar(&user.Role, "role", "user", "`ROLE`: user, admin or viewer")
	flags.BoolVar(&user.AllowRoot, "allow-root", false, "the account may be root")
	valid := flags.Duration("valid", 0, "the token ends after `TIME`; 0: it has no end")
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) (err error) {
		if user.Name, err = named(arguments, "user", "user add"); err != nil {
			return err
		}
		if user.Account == "" {
			user.Account = user.Name
		}
		if user.ExpiresUnixMs, err = endOf(*valid); err != nil {
			return err
		}
		return giveToken(ctx, to, &api.AddUserRequest{User: user}, *asJSON)
	}
}

// userTokenVerb makes a new token.
func userTokenVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	valid := flags.Duration("valid", 0, "the token ends after `TIME`; 0: it has no end")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		name, err := named(arguments, "user", "user token")
		if err != nil {
			return err
		}
		user := &api.User{Name: name}
		if user.ExpiresUnixMs, err = endOf(*valid); err != nil {
			return err
		}
		return giveToken(ctx, to, &api.AddUserRequest{User: user, TokenOnly: true}, *asJSON)
	}
}

// endOf returns when a token ends that is valid for a time; 0: it has no end.
func endOf(valid time.Duration) (unixMS int64, err error) {
	switch {
	case valid == 0:
		return 0, nil
	case valid < time.Second:
		return 0, &verb.UsageError{Text: "--valid takes a time of at least 1s, as 720h; 0: the token has no end"}
	}
	return time.Now().Add(valid).UnixMilli(), nil
}

// giveToken asks for a token and prints it.
func giveToken(ctx context.Context, to verb.Streams, request *api.AddUserRequest, asJSON bool) error {
	return use(func(c api.ClusterClient) error {
		reply, err := c.AddUser(ctx, request)
		if err != nil {
			return err
		}
		if asJSON {
			return view.JSON(to.Out, view.Object(reply))
		}
		fmt.Fprintf(to.Out, "the token of %s, which is not shown again:\n\n  %s\n",
			humanize.Printable(reply.GetUser().GetName()), humanize.Printable(reply.GetToken()))
		if len(reply.GetControllers()) > 0 {
			fmt.Fprintf(to.Out, "\non another machine, this asks for it, and the verbs of phos use the cluster then:\n\n  %s\n",
				login.Command(reply.GetControllers()[0], reply.GetCa()))
		}
		return nil
	})
}

// removeUserVerb removes a user.
func removeUserVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print the removed user's name as JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		name, err := named(arguments, "user", "user remove")
		if err != nil {
			return err
		}
		return use(func(c api.ClusterClient) error {
			if _, err := c.RemoveUser(ctx, &api.RemoveUserRequest{Name: name}); err != nil {
				return err
			}
			return sayRemoved(to, *asJSON, name, fmt.Sprintf("user %s was removed", humanize.Printable(name)))
		})
	}
}
