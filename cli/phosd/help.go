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

// helpColumns is the width of the column that describes the flags.
const helpColumns = 64

// wrapped breaks a text into lines.
func wrapped(text string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > helpColumns {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

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
		fmt.Fprintf(out, "  --%s%s\t%s\n", each.Name, value, strings.Join(wrapped(usage), "\n\t"))
	})
	return out.Flush()
}
