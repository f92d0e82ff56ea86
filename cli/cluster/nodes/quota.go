package nodes

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strconv"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// quotaVerbs returns the verbs about quotas.
func quotaVerbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group("quota", "list|set|remove", "show and change what users may have",
			`A quota limits what the launches of one account have: GPUs at once, launches that wait, and packed
code that the cluster keeps. Accounts without limits of their own have those of the default.

    phos quota set --default --gpus 8 --launches 100 --code 2GiB
    phos quota set ada --gpus 16
    phos quota list

Launches over the quota of GPUs wait, and hold up no other account; phos why says so. One that could
never start, too many that wait, and too much code are refused when they are sent. What runs is
never stopped by a quota.`),
		{
			Name: "quota list", Word: true, Summary: "list the quotas, and what is used of them",
			About: `Lists what accounts have of their quotas, as USED/LIMIT. Limits that the account has of its own are
marked by a star; the others are those of the default. Users see their own.

    phos quota list
    phos quota list --json | jq '.[] | select(.gpus > 8) | .account'`,
			Setup: listQuotasVerb,
		},
		{
			Name: "quota set", Word: true, Arguments: "ACCOUNT", Summary: "change the limits of an account",
			About: `Changes the limits that are named, and leaves the others. With --default in place of the account, they
are for all accounts without limits of their own. 0 allows nothing, and none has no limit, whatever
the default is. A lower limit stops nothing that runs.

    phos quota set ada --gpus 16 --launches none
    phos quota set --default --code 2GiB`,
			Setup: setQuotaVerb,
		},
		{
			Name: "quota remove", Word: true, Arguments: "ACCOUNT", Summary: "take the limits of an account away",
			About: `Takes the limits away that an account has of its own, so that those of the default count. With
--default in place of the account, the default has no limits.

    phos quota remove ada`,
			Setup: removeQuotaVerb,
		},
	}
}

// limit is the value of a flag with a limit.
type limit struct {
	into  **int64
	bytes bool
}

// String returns what was set.
func (l limit) String() string {
	if l.into == nil || *l.into == nil {
		return ""
	}
	return strconv.FormatInt(**l.into, 10)
}

// Set reads a limit.
func (l limit) Set(text string) error {
	var value int64
	var size launch.Bytes
	count, err := strconv.ParseUint(text, 10, 63)
	switch {
	case text == "none":
		value = -1
	case err == nil:
		value = int64(count)
	case l.bytes && size.UnmarshalText([]byte(text)) == nil && size <= math.MaxInt64:
		value = int64(size)
	case l.bytes:
		return fmt.Errorf("want a size as 512MiB or 2GiB, 0, or none")
	default:
		return fmt.Errorf("want a number of 0 or more, or none")
	}
	*l.into = &value
	return nil
}

// limitFlags defines the flags of limits.
func limitFlags(flags *flag.FlagSet) *api.Limits {
	limits := &api.Limits{}
	flags.Var(limit{into: &limits.Gpus}, "gpus", "at most `N` GPUs at once, or none")
	flags.Var(limit{into: &limits.Launches}, "launches", "at most `N` launches that wait, or none")
	flags.Var(limit{into: &limits.CodeBytes, bytes: true}, "code", "at most `SIZE` of code that is kept, or none")
	return limits
}

// accountOf returns the account that a verb is about; empty: the default.
func accountOf(arguments []string, usual bool, what string) (string, error) {
	if usual && len(arguments) > 0 {
		return "", &verb.UsageError{Text: fmt.Sprintf("name an account or --default, not both: %q", arguments[0])}
	}
	if usual {
		return "", nil
	}
	return named(arguments, "account", what)
}

// listQuotasVerb prints the quotas.
func listQuotasVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		return use(func(c api.ClusterClient) error {
			reply, err := c.ListQuotas(ctx, &api.ListQuotasRequest{})
			if err != nil {
				return err
			}
			if *asJSON {
				return view.JSON(to.Out, view.Objects(reply.GetQuotas()))
			}
			return view.Quotas(to.Out, reply.GetQuotas())
		})
	}
}

// setQuotaVerb changes limits.
func setQuotaVerb(flags *flag.FlagSet) run {
	usual := flags.Bool("default", false, "the limits of accounts that have none of their own")
	asJSON := flags.Bool("json", false, "print JSON")
	limits := limitFlags(flags)
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		account, err := accountOf(arguments, *usual, "quota set")
		if err != nil {
			return err
		}
		if limits.Gpus == nil && limits.Launches == nil && limits.CodeBytes == nil {
			return &verb.UsageError{Text: "name a limit: --gpus, --launches or --code"}
		}
		return use(func(c api.ClusterClient) error {
			quota, err := c.SetQuota(ctx, &api.SetQuotaRequest{Account: account, Limits: limits})
			if err != nil {
				return err
			}
			if *asJSON {
				return view.JSON(to.Out, view.Object(quota))
			}
			return view.Quotas(to.Out, []*api.Quota{quota})
		})
	}
}

// removeQuotaVerb takes limits away.
func removeQuotaVerb(flags *flag.FlagSet) run {
	usual := flags.Bool("default", false, "the limits of accounts that have none of their own")
	asJSON := flags.Bool("json", false, "print the account as JSON; empty: the default")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		account, err := accountOf(arguments, *usual, "quota remove")
		if err != nil {
			return err
		}
		return use(func(c api.ClusterClient) error {
			if _, err := c.RemoveQuota(ctx, &api.RemoveQuotaRequest{Account: account}); err != nil {
				return err
			}
			text := "the default has no limits"
			if account != "" {
				text = humanize.Printable(account) + " has the limits of the default"
			}
			return sayRemoved(to, *asJSON, account, text)
		})
	}
}
