package view

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cluster/api"
)

// Quotas prints a row for each account, and one for the default.
func Quotas(to io.Writer, quotas []*api.Quota) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "ACCOUNT\tGPUS\tWAITING\tCODE\n")
	for _, q := range quotas {
		name := "(default)"
		if q.GetAccount() != "" {
			name = humanize.Shorten(q.GetAccount(), maxReason)
		}
		own, limits := q.GetOwn(), q.GetLimits()
		if own == nil {
			own = &api.Limits{}
		}
		if limits == nil {
			limits = &api.Limits{}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", name,
			share(q, q.GetGpus(), own.Gpus, limits.Gpus, decimal),
			share(q, q.GetLaunches(), own.Launches, limits.Launches, decimal),
			share(q, q.GetCodeBytes(), own.CodeBytes, limits.CodeBytes, humanize.Bytes))
	}
	return out.Flush()
}

// decimal returns a number.
func decimal(n uint64) string { return fmt.Sprint(n) }

// share returns what is used of a limit; the default's alone for the default. A star marks a limit
// that is the account's own.
func share(q *api.Quota, used uint64, own, limit *int64, text func(uint64) string) string {
	most, mark := "none", ""
	if limit != nil && *limit >= 0 {
		most = text(uint64(*limit))
	}
	if q.GetAccount() == "" {
		return most
	}
	if own != nil {
		mark = "*"
	}
	return text(used) + "/" + most + mark
}
