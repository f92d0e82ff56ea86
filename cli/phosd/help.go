package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

// help prints all flags, the settings among them with the comments of --print-config.
func help(to io.Writer, flags *flag.FlagSet) error {
	out := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	fmt.Fprintf(out, "phosd %s: the daemon of phos; as root. Settings are in %s, and flags win over it.\n",
		api.Version, config.DefaultPath)
	fmt.Fprintf(out, "pos_cli --start starts it in the background.\n\nFlags:\n")
	flags.VisitAll(func(each *flag.Flag) {
		value, usage := flag.UnquoteUsage(each)
		usage = strings.TrimPrefix(usage, value+": ")
		if strings.HasPrefix(usage, "old name of") {
			return
		}
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(out, "  --%s%s\t%s\n", each.Name, value, usage)
	})
	return out.Flush()
}
